"""Images with labels: made up, or of a folder."""

import concurrent.futures
import os
import random

import harness  # before torch: it says what to do where that is missing
import torch
import torch.nn.functional as F

HELD_OUT_BATCHES = 4
_PATTERN_PIXELS = 8
# Labels that are drawn anew: without them the loss falls to nothing, and all variants look alike.
_WRONG_LABELS = 0.1
_HELD_OUT_EVERY = 16
_ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".webp")
# What is usual for ImageNet.
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_LOADERS = 8


class ImageError(Exception):
    """The images cannot be used; the sentence says why."""


class Synthetic:
    """Each class has a coarse pattern of its own, half as strong as the noise over it."""

    def __init__(self, n_classes, pixels, device):
        self.n_classes, self._pixels, self._device = n_classes, pixels, device
        size = (n_classes, 3, _PATTERN_PIXELS, _PATTERN_PIXELS)
        self._patterns = torch.randn(size, generator=harness.generator("cpu", "patterns"))
        self._patterns = self._patterns.to(device)

    def batch(self, count, *names):
        source = harness.generator(self._device, *names)
        given = {"generator": source, "device": self._device}
        shown, drawn = torch.randint(self.n_classes, (2, count), **given)
        images = torch.randn((count, 3, self._pixels, self._pixels), **given)
        images += 0.5 * F.interpolate(self._patterns[shown], size=images.shape[2:])
        wrong = torch.rand(count, **given) < _WRONG_LABELS
        return images, torch.where(wrong, drawn, shown)

    def held_out(self, count):
        return (self.batch(count, "held out", i) for i in range(HELD_OUT_BATCHES))


class Folder:
    """FOLDER/<class>/<image>: a square out of each, at a random place when it is trained on."""

    def __init__(self, path, pixels, device):
        self._pixels, self._device = pixels, device
        self._open = image_opener()
        files, classes = list_images(path)
        self.n_classes = len(classes)
        self._rest = files[::_HELD_OUT_EVERY]
        self._train = [file for i, file in enumerate(files) if i % _HELD_OUT_EVERY]
        self._pool = concurrent.futures.ThreadPoolExecutor(_LOADERS)

    def batch(self, count, *names):
        source = random.Random(" ".join(map(str, names)))
        chosen = source.choices(self._train, k=count)
        return self._load(chosen, [(source.random(), source.random()) for _ in chosen])

    def held_out(self, count):
        for i in range(0, min(len(self._rest), HELD_OUT_BATCHES * count), count):
            chosen = self._rest[i : i + count]
            yield self._load(chosen, [(0.5, 0.5)] * len(chosen))

    def _load(self, chosen, corners):
        images = list(self._pool.map(self._square, (path for path, _ in chosen), corners))
        labels = torch.tensor([label for _, label in chosen], device=self._device)
        images = torch.stack(images).to(self._device).permute(0, 3, 1, 2).float() / 255
        mean, deviation = (
            torch.tensor(of_colour, device=self._device).view(3, 1, 1)
            for of_colour in (_MEAN, _DEVIATION)
        )
        return (images - mean) / deviation, labels

    def _square(self, path, corner):
        side = self._pixels
        with self._open(path) as image:
            image = image.convert("RGB")
            scale = 1.15 * side / min(image.size)
            width, height = (max(side, round(length * scale)) for length in image.size)
            left, top = int(corner[0] * (width - side)), int(corner[1] * (height - side))
            image = image.resize((width, height)).crop((left, top, left + side, top + side))
            values = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
        return values.view(side, side, 3)


def image_opener():
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise ImageError("reading images takes Pillow: pip install pillow") from None
    return Image.open


def list_images(path):
    """([(file, class), ..] in a fixed shuffled order, names of the classes)"""
    try:
        classes = sorted(entry.name for entry in os.scandir(path) if entry.is_dir())
    except OSError as error:
        raise ImageError(f"cannot read {path}: {error.strerror}") from error
    files = [
        (os.path.join(path, name, file), label)
        for label, name in enumerate(classes)
        for file in sorted(os.listdir(os.path.join(path, name)))
        if file.lower().endswith(_ENDINGS)
    ]
    if len(files) < 2:
        raise ImageError(f"{path} has no folders of images, one for each class")
    random.Random("images").shuffle(files)
    return files, classes
