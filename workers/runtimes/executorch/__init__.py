"""ExecuTorch: from a model to a checked file for XNNPACK, portable kernels or Vulkan, and the runners for it."""
