"""What is known of PyTorch's distributed tests on the emulator (distributed_tests.py): which fail and why.

A test that is not listed has to pass, and one that is listed has to fail: who puts one right takes it off.
"""

# A few of each kind, for .ci/nightly rest. All pass with both implementations of the back end.
CORNER = """
    test_DistributedDataParallel_SyncBatchNorm test_accumulate_gradients_no_sync
    test_all_gather_into_cat_tensor_cuda test_all_to_all_cuda test_batch_isend_irecv_nccl
    test_coalescing_manager
    test_ddp_native_mixed_precision_grad_as_bucket_view_set_grad_to_none test_get_future
    test_periodic_model_averager test_post_localSGD_optimizer_parity test_reduce_scatter_tensor_cuda
    test_skip_all_reduce_unused_parameters test_verify_model_across_rank_with_logger
""".split()

# Every second one that runs, in the order of their names, without the two that take a minute.
REPORT = """
    test_1_level_hierarchical_model_averager_equivalent_to_periodic_model_averager
    test_DistributedDataParallel_SyncBatchNorm test_DistributedDataParallel_SyncBatchNorm_Channels_Last
    test_DistributedDataParallel_SyncBatchNorm_Diff_Input_Sizes_gradient
    test_DistributedDataParallel_SyncBatchNorm_Single_Input_Per_Process
    test_DistributedDataParallel_requires_grad test_DistributedSampler_padding
    test_accumulate_gradients_no_sync_allreduce_hook test_accumulate_gradients_no_sync_grad_is_view
    test_all_gather_cuda_complex test_all_gather_into_stack_tensor_cuda test_all_gather_object_subgroup
    test_all_reduce_sum_cuda test_all_reduce_sum_cuda_complex test_all_to_all_cuda_complex
    test_all_to_all_single_equal_split_cuda test_all_to_all_single_equal_split_full_group_cuda
    test_all_to_all_single_unequal_split_cuda_complex test_average_parameters
    test_batch_isend_irecv_mixed_backend_err test_batch_isend_irecv_op_err
    test_batch_isend_irecv_ring_exchange_nccl test_broadcast_cuda test_coalescing_manager_async
    test_ddp_apply_optim_in_backward test_ddp_apply_optim_in_backward_ignored_params
    test_ddp_broadcast_buffer_via_hook test_ddp_bucket_cap_mb_list
    test_ddp_buffer_hook_allreduce_return_future test_ddp_build_debug_param_to_name_mapping_requires_grad
    test_ddp_control_flow_same_across_ranks test_ddp_device_mesh_initialization
    test_ddp_grad_div_uneven_inputs test_ddp_hook_parity_allreduce_process_group
    test_ddp_hook_parity_powerSGD test_ddp_ignore_params_arg
    test_ddp_init_sync_buffers_with_forward_sync_buffers_false
    test_ddp_join_respects_forward_sync_buffers_false test_ddp_model_diff_num_params_across_ranks
    test_ddp_multiple_nested_unused_params_error
    test_ddp_native_mixed_precision_grad_as_bucket_view_no_set_grad_none
    test_ddp_native_mixed_precision_ignored_params
    test_ddp_native_mixed_precision_no_grad_as_bucket_view_set_grad_to_none
    test_ddp_new_tensor_in_fwd_static_graph test_ddp_python_error_logged
    test_ddp_returns_tensor_with_no_grad test_ddp_sink_noclone test_ddp_sync_module_states
    test_ddp_uneven_input_join_disable test_ddp_uneven_inputs_stop_iteration_sync_bn
    test_ddp_zero_output_features test_destroy_group test_different_graph_across_ranks test_gather_cuda
    test_get_data_parallel_params test_get_rank test_get_rank_size_group
    test_monitored_barrier_allreduce_hang test_nccl_backend_bool_allgather test_nccl_backend_bool_broadcast
    test_nccl_high_priority_stream test_new_subgroups_group_size_exceeds_world_size
    test_output_unused_in_loss_tuple_module test_periodic_model_averager_param_group
    test_post_localSGD_optimizer_parity_grad_is_view test_reduce_scatter_tensor_cuda test_reduce_sum_cuda
    test_scatter_cuda test_send_recv_nccl test_send_recv_nccl_torch_profiler
    test_skip_all_reduce_unused_parameters test_stateless_api_with_ddp test_sync_bn_logged
    test_verify_model_across_rank_with_logger
""".split()

TITLE = (
    "the test looks for an event 'nccl:all_reduce' (or its like) in the profile, and the new back end records "
    "'all_reduce': PyTorch's C++ names the event on the host, and a GPU changes nothing about it")
BOUND_DEVICE = (
    "the test makes the other rank's device the current one, and all_gather_object puts its tensors there: the "
    "new back end refuses tensors of another device than the one it was made for, on a GPU, too")

OLD = {}

NEW = {
    "test_all_gather_cuda": TITLE,
    "test_all_gather_cuda_complex": TITLE,
    "test_all_gather_object_default_pg": BOUND_DEVICE,
    "test_all_gather_object_subgroup": BOUND_DEVICE,
    "test_all_reduce_sum_cuda": TITLE,
    "test_all_reduce_sum_cuda_async": TITLE,
    "test_all_reduce_sum_cuda_complex": TITLE,
    "test_all_to_all_single_equal_split_cuda": TITLE,
    "test_all_to_all_single_equal_split_cuda_complex": TITLE,
    "test_all_to_all_single_equal_split_full_group_cuda": TITLE,
    "test_broadcast_cuda": TITLE,
    "test_ddp_profiling_torch_profiler": TITLE,
    "test_reduce_sum_cuda": TITLE,
    "test_reduce_sum_cuda_twice": TITLE,
    "test_send_recv_nccl_autograd_profiler": TITLE,
    "test_send_recv_nccl_torch_profiler": TITLE,
}


def failures(implementation):
    return OLD if implementation == "old" else NEW
