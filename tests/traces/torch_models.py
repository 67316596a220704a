"""Models whose traffic is recorded, with one small batch for each."""

import torch
import torchvision
import transformers


def tokens(vocabulary, length=8):
    return torch.randint(0, vocabulary, (1, length))


def gpt2():
    """124M parameters, the embedding tied to the head."""
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False))


def bert_large():
    return transformers.BertForMaskedLM(transformers.BertConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096))


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=768, num_hidden_layers=8, num_attention_heads=12, num_key_value_heads=4,
        intermediate_size=2048, use_cache=False))


class Tied(torch.nn.Module):
    """Tied, frozen and zero-dimensional parameters."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(4096, 256)
        self.frozen = torch.nn.Linear(256, 256)
        self.frozen.requires_grad_(False)
        self.temperature = torch.nn.Parameter(torch.tensor(1.0))
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(256, 256) for _ in range(12))
        self.scales = torch.nn.ParameterList(torch.tensor(1.0) for _ in range(12))
        self.head = torch.nn.Linear(256, 4096, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, inputs):
        x = self.frozen(self.embedding(inputs))
        for block, scale in zip(self.blocks, self.scales):
            x = x + scale * torch.relu(block(x))
        return self.head(x) * self.temperature


def image_batch(size):
    return lambda: (torch.randn(2, 3, size, size),)


# Name, how to build it, and a batch.
MODELS = {
    "resnet50": (torchvision.models.resnet50, image_batch(32)),
    "vit_b16": (torchvision.models.vit_b_16, image_batch(224)),
    "gpt2": (gpt2, lambda: (tokens(50257),)),
    "bert_large": (bert_large, lambda: (tokens(30522),)),
    "llama": (llama, lambda: (tokens(32000),)),
    "tied": (Tied, lambda: (tokens(4096),)),
}


def loss_of(output):
    return getattr(output, "logits", output).float().pow(2).mean()


class Generator(torch.nn.Sequential):
    """A convolutional generator of 64 x 64 images."""

    def __init__(self, width=128):
        super().__init__()
        channels = [width * 8, width * 4, width * 2, width, 3]
        self.append(torch.nn.ConvTranspose2d(100, channels[0], 4, bias=False))
        for last, following in zip(channels, channels[1:]):
            self.append(torch.nn.BatchNorm2d(last, track_running_stats=False))
            self.append(torch.nn.ReLU())
            self.append(torch.nn.ConvTranspose2d(last, following, 4, 2, 1, bias=False))


class Discriminator(torch.nn.Sequential):
    def __init__(self, width=128):
        super().__init__()
        channels = [3, width, width * 2, width * 4, width * 8]
        for last, following in zip(channels, channels[1:]):
            self.append(torch.nn.Conv2d(last, following, 4, 2, 1, bias=False))
            self.append(torch.nn.LeakyReLU(0.2))
        self.append(torch.nn.Conv2d(channels[-1], 1, 4, bias=False))
