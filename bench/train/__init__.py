"""Training of real models through PyTorch, and the comparison of what compresses its gradients."""
