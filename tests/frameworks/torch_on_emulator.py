"""What a program may rely on when it runs PyTorch on the emulator, beyond the results of operators.

Runs inside the emulator's environment: python torch_on_emulator.py
"""
import copy
import io
import unittest

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


def gradients(module, value):
    """Output and gradients of a copy of the module on the device of `value`."""
    module = copy.deepcopy(module).to(value.device)
    value = value.detach().clone().requires_grad_()
    output = module(value)
    output = output[0] if isinstance(output, tuple) else output
    output.square().sum().backward()
    return [output.detach(), value.grad, *(parameter.grad for parameter in module.parameters())]


class Composed(unittest.TestCase):
    """Operators that PyTorch has for GPUs alone give what the CPU's own path gives."""

    def check(self, module, value, tolerance=1e-5):
        torch.manual_seed(0)
        for expected, found in zip(gradients(module, value), gradients(module, value.cuda()), strict=True):
            torch.testing.assert_close(found.cpu(), expected, rtol=tolerance, atol=tolerance)

    def test_recurrent_layers(self):
        for layer in (torch.nn.LSTM, torch.nn.GRU):
            for bias in (True, False):
                self.check(layer(6, 5, 2, batch_first=True, bias=bias), torch.randn(3, 7, 6))

    def test_rms_norm(self):
        self.check(torch.nn.RMSNorm(6), torch.randn(4, 3, 6))
        self.check(torch.nn.RMSNorm((3, 6), elementwise_affine=False), torch.randn(4, 3, 6))

    def test_half_softmax_to_float(self):
        value = torch.randn(4, 6).half()
        for function in (F.softmax, F.log_softmax):
            found = function(value.cuda().requires_grad_(), 1, dtype=torch.float32)
            found.sum().backward()
            torch.testing.assert_close(found.detach().cpu(), function(value.float(), 1))

    def test_sync_batch_norm_statistics(self):
        """Two halves' statistics, gathered, are those of the whole; the gradient is BatchNorm's."""
        for shape in ((8, 3), (8, 3, 5, 4)):
            whole = torch.randn(shape)
            gradient, weight = torch.randn(shape).cuda(), torch.randn(3).cuda()
            value = whole.cuda()
            parts = [torch.batch_norm_stats(part, 1e-5) for part in value.chunk(2)]
            mean, inverse = torch.batch_norm_gather_stats_with_counts(
                value, torch.stack([part[0] for part in parts]), torch.stack([part[1] for part in parts]),
                None, None, 0.1, 1e-5, torch.full((2,), value.numel() / 3 / 2, device="cuda"))
            norm = torch.nn.BatchNorm1d(3) if len(shape) == 2 else torch.nn.BatchNorm2d(3)
            norm.weight.data.copy_(weight)
            leaf = whole.clone().requires_grad_()
            expected = norm(leaf)
            expected.backward(gradient.cpu())
            found = torch.batch_norm_elemt(value, weight, None, mean, inverse, 1e-5)
            torch.testing.assert_close(found.cpu(), expected.detach(), rtol=1e-4, atol=1e-5)
            sums = torch.batch_norm_backward_reduce(gradient, value, mean, inverse, weight, True, True, True)
            count = torch.tensor([value.numel() // 3], device="cuda")
            backward = torch.batch_norm_backward_elemt(gradient, value, mean, inverse, weight, *sums[:2], count)
            torch.testing.assert_close(backward.cpu(), leaf.grad, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(sums[2].cpu(), norm.weight.grad, rtol=1e-4, atol=1e-5)

    def test_sparse_gradients(self):
        embedding = torch.nn.Embedding(10, 3, sparse=True).cuda()
        embedding(torch.tensor([1, 2, 1], device="cuda")).sum().backward()
        gradient = embedding.weight.grad.coalesce()
        self.assertEqual(gradient.indices().tolist(), [[1, 2]])
        self.assertEqual(gradient.values().tolist(), [[2.0] * 3, [1.0] * 3])
        torch.optim.SparseAdam(embedding.parameters()).step()


class Libraries(unittest.TestCase):
    """A script that asks for a GPU library's kernels gets PyTorch's own."""

    def test_attention(self):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        value = torch.randn(1, 2, 8, 16, device="cuda", dtype=torch.bfloat16)
        expected = F.scaled_dot_product_attention(value, value, value)
        torch.backends.cuda.enable_flash_sdp(True)
        torch.backends.cuda.enable_mem_efficient_sdp(True)
        self.assertTrue(F.scaled_dot_product_attention(value, value, value).equal(expected))
        for allowed in (SDPBackend.FLASH_ATTENTION, [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
            with sdpa_kernel(allowed):
                self.assertTrue(F.scaled_dot_product_attention(value, value, value).equal(expected))

    def test_cudnn(self):
        value = torch.randn(2, 3, 4, device="cuda")
        torch.backends.cudnn.enabled = True
        torch.backends.cudnn.benchmark = True
        with torch.backends.cudnn.flags(enabled=True):
            for layer in (torch.nn.BatchNorm1d(3), torch.nn.GRU(4, 2), torch.nn.LSTM(4, 2), torch.nn.Conv1d(3, 2, 1)):
                layer.cuda()(value)


class Mistakes(unittest.TestCase):
    """What fails on a GPU fails here, and does not go on with other numbers."""

    def test_tensors_on_two_devices(self):
        here, there = torch.ones(3), torch.ones(3, device="cuda")
        labels = torch.zeros(2, dtype=torch.long)
        for mixed in (lambda: here + there, lambda: there.add_(here), lambda: here.add_(there),
                      lambda: torch.ones(2, 3, device="cuda") @ here, lambda: torch.cat([here, there]),
                      lambda: F.mse_loss(there, here), lambda: F.linear(there, torch.ones(2, 3)),
                      lambda: F.cross_entropy(torch.ones(2, 3, device="cuda"), labels),
                      lambda: F.embedding(labels, torch.ones(4, 3, device="cuda")),
                      lambda: there.gather(0, labels), lambda: torch.maximum(there, here)):
            with self.assertRaisesRegex(RuntimeError, "Expected all tensors to be on the same device"):
                mixed()

    def test_what_may_be_on_the_cpu(self):
        there = torch.arange(6.0, device="cuda").view(2, 3)
        self.assertEqual((there * torch.tensor(2.0)).sum().item(), 30)
        self.assertEqual(there[torch.tensor([1])].sum().item(), 12)
        there[torch.tensor([0])] = 1.0
        there[0].copy_(torch.zeros(3))
        self.assertEqual(there.sum().item(), 12)
        packed = torch.nn.utils.rnn.pack_padded_sequence(there.view(2, 3, 1), torch.tensor([3, 2]), batch_first=True)
        torch.nn.LSTM(1, 2, batch_first=True).cuda()(packed)

    def test_kernels_whose_launch_nobody_checks(self):
        nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], device="cuda")
        with self.assertRaisesRegex(RuntimeError, "not supported"):
            nested.to_padded_tensor(0.0).cpu()
        self.assertEqual(torch.ones(3, device="cuda").sum().item(), 3)  # and what follows goes on


class Memory(unittest.TestCase):
    def test_in_place_forms_and_views_share_memory(self):
        value = torch.zeros(4, 4, device="cuda")
        row = value[1]
        row.add_(1)
        value.t()[0].mul_(3)
        self.assertEqual(value.sum().item(), 6.0)
        self.assertEqual(value[1].data_ptr(), row.data_ptr())
        pointer = value.data_ptr()
        self.assertIs(value.add_(1), value)
        self.assertEqual(value.data_ptr(), pointer)

    def test_out_forms_resize(self):
        out = torch.empty(0, device="cuda")
        result = torch.add(torch.ones(3, 2, device="cuda"), 1, out=out)
        self.assertIs(result, out)
        self.assertEqual(out.tolist(), [[2.0, 2.0]] * 3)
        strided = torch.zeros(4, 2, device="cuda")
        torch.add(torch.ones(4, device="cuda"), 1, out=strided[:, 1])
        self.assertEqual(strided.sum(0).tolist(), [0.0, 8.0])

    def test_layout_survives(self):
        images = torch.randn(2, 3, 8, 8, device="cuda").contiguous(memory_format=torch.channels_last)
        output = torch.nn.Conv2d(3, 8, 3).cuda().to(memory_format=torch.channels_last)(images)
        self.assertTrue(output.is_contiguous(memory_format=torch.channels_last))

    def test_released_memory_is_an_error(self):
        value = torch.ones(4, device="cuda")
        value.untyped_storage().resize_(0)
        with self.assertRaisesRegex(RuntimeError, "after its memory was released"):
            value.sum()

    def test_saved_tensors_come_back_to_the_device(self):
        file = io.BytesIO()
        torch.save(torch.arange(3, device="cuda"), file)
        file.seek(0)
        self.assertEqual(torch.load(file).device, torch.device("cuda", 0))


class Random(unittest.TestCase):
    def draws(self):
        return torch.cat([torch.randn(5, device="cuda"), torch.randperm(5, device="cuda").float(),
                          F.dropout(torch.ones(50, device="cuda"), 0.5),
                          torch.empty(3, device="cuda").exponential_()])

    def test_the_seed_alone_gives_the_numbers(self):
        torch.cuda.manual_seed(5)
        first = self.draws()
        torch.rand(3)  # the CPU's generator has no say
        torch.cuda.manual_seed(5)
        self.assertTrue(torch.equal(first, self.draws()))
        self.assertFalse(torch.equal(first, self.draws()))

    def test_cpu_numbers_are_left_alone(self):
        torch.manual_seed(1)
        expected = torch.rand(3)
        torch.manual_seed(1)
        self.draws()
        self.assertTrue(torch.equal(expected, torch.rand(3)))

    def test_states_and_generators(self):
        state = torch.cuda.get_rng_state()
        first = self.draws()
        torch.cuda.set_rng_state(state)
        self.assertTrue(torch.equal(first, self.draws()))
        generator = torch.Generator("cuda").manual_seed(4)
        own = torch.randn(3, device="cuda", generator=generator)
        generator.manual_seed(4)
        self.assertTrue(torch.equal(own, torch.randn(3, device="cuda", generator=generator)))
        with torch.random.fork_rng(devices=[0]):
            inside = self.draws()
        self.assertTrue(torch.equal(inside, self.draws()))

    def test_recomputation_draws_the_same_mask(self):
        for reentrant in (False, True):
            value = torch.ones(1000, device="cuda", requires_grad=True)
            output = checkpoint(lambda x: F.dropout(x, 0.5), value, use_reentrant=reentrant)
            output.sum().backward()
            self.assertTrue(torch.equal(output.detach(), value.grad))


class Streams(unittest.TestCase):
    def test_operators_follow_what_their_stream_waits_for(self):
        slow, fast = torch.cuda.Stream(), torch.cuda.Stream()
        source = torch.ones(1 << 20).pin_memory()
        target = torch.zeros(1 << 20, device="cuda")
        for _ in range(50):
            with torch.cuda.stream(slow):
                target.copy_(source, non_blocking=True)
                target.mul_(2)
            fast.wait_stream(slow)
            with torch.cuda.stream(fast):
                total = target.sum()
                target.zero_()
            slow.wait_stream(fast)
            self.assertEqual(total.item(), 2 << 20)

    def test_events_take_times(self):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        torch.randn(200, 200, device="cuda") @ torch.randn(200, 200, device="cuda")
        end.record()
        torch.cuda.synchronize()
        self.assertGreater(begin.elapsed_time(end), 0)


class Refused(unittest.TestCase):
    """What cannot run names itself and says why."""

    def refuses(self, pattern, function, *arguments, error=RuntimeError):
        with self.assertRaisesRegex(error, pattern):
            function(*arguments)

    def test_operators_of_gpu_libraries(self):
        value = torch.randn(1, 2, 4, 8, device="cuda").half()
        self.refuses("_scaled_dot_product_flash_attention runs on a GPU alone",
                     lambda: torch.ops.aten._scaled_dot_product_flash_attention(value, value, value))
        self.assertEqual(F.scaled_dot_product_attention(value, value, value).shape, value.shape)

    def test_capture_into_a_graph(self):
        value = torch.ones(3, device="cuda")

        def capture():
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                value * 2

        self.refuses("aten::mul cannot be captured into a CUDA graph on the emulator", capture)
        self.assertEqual((value * 2).tolist(), [2.0] * 3)

    def test_compilation(self):
        value = torch.ones(3, device="cuda")
        self.refuses("torch.compile cannot compile for CUDA on the emulator",
                     torch.compile(lambda x: x.sin() + 1), value, error=Exception)
        result = torch.compile(lambda x: x.sin() + 1, backend="aot_eager")(value)
        torch.testing.assert_close(result, value.sin() + 1)

    def test_triton_kernels(self):
        import triton

        @triton.jit
        def kernel(pointer):
            pass

        self.refuses("the Triton kernel kernel cannot run on the emulator",
                     lambda: kernel[(1,)](torch.ones(3, device="cuda")))

    def test_jiterator(self):
        function = torch.cuda.jiterator._create_jit_fn("template <typename T> T f(T x) { return x; }")
        self.refuses("jiterator compiles for a GPU", function, torch.ones(3, device="cuda"))

    def test_a_device_that_is_not_there(self):
        self.refuses("invalid device ordinal", lambda: torch.ones(3, device="cuda:70"))


class Training(unittest.TestCase):
    def test_optimizers_of_all_kinds(self):
        layer = torch.nn.Linear(8, 8).cuda()
        for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad):
            for how in ({}, {"fused": True}, {"foreach": True}):
                before = layer.weight.detach().clone()
                optimizer = kind(layer.parameters(), lr=0.1, **how)
                layer(torch.ones(1, 8, device="cuda")).sum().backward()
                optimizer.step()
                self.assertFalse(torch.equal(before, layer.weight), f"{kind.__name__} {how}")

    def test_mixed_precision(self):
        layer = torch.nn.Linear(8, 8).cuda()
        optimizer = torch.optim.AdamW(layer.parameters())
        scaler = torch.amp.GradScaler("cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            loss = layer(torch.randn(4, 8, device="cuda")).sum()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        self.assertEqual(loss.dtype, torch.float32)

    def test_the_profiler_sees_operators(self):
        kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=kinds) as profile:
            torch.ones(3, device="cuda").sin()
        self.assertIn("aten::sin", [event.name for event in profile.events()])

    def test_data_loaders_pin_memory(self):
        data = torch.utils.data.TensorDataset(torch.arange(8.0))
        loader = torch.utils.data.DataLoader(data, batch_size=2, num_workers=2, pin_memory=True)
        total = sum(batch.cuda(non_blocking=True).sum().item() for (batch,) in loader)
        self.assertEqual(total, 28.0)


if __name__ == "__main__":
    unittest.main()
