// A libneuralnetworks.so for the host: Android's Neural Networks API in C, as PyTorch's runtime calls it, computed by
// libtorch's kernels. It says what a model computes and whether it is well formed, never how fast a phone is.
//
// Every call returns NNAPI's result code and lets no exception out; edgesweep_reference_last_error() says why the last
// call of this thread failed.
#include "nnapi_handles.h"

#define NNAPI_EXPORT extern "C" __attribute__((visibility("default")))

NNAPI_EXPORT const char* edgesweep_reference_last_error() { return last_error.c_str(); }

NNAPI_EXPORT int ANeuralNetworks_getDeviceCount(uint32_t* count) {
  return guarded([&] {
    require(count);
    *count = std::size(kDevices);
  });
}

NNAPI_EXPORT int ANeuralNetworks_getDevice(uint32_t index, ANeuralNetworksDevice** device) {
  return guarded([&] {
    require(device);
    if (index >= std::size(kDevices)) {
      fail(kBadData, "there is no device ", index);
    }
    *device = const_cast<ANeuralNetworksDevice*>(&kDevices[index]);
  });
}

NNAPI_EXPORT int ANeuralNetworksDevice_getName(const ANeuralNetworksDevice* device, const char** name) {
  return guarded([&] {
    require(device, name);
    *name = device->name;
  });
}

NNAPI_EXPORT int ANeuralNetworksDevice_getVersion(const ANeuralNetworksDevice* device, const char** version) {
  return guarded([&] {
    require(device, version);
    *version = device->version;
  });
}

NNAPI_EXPORT int ANeuralNetworksDevice_getType(const ANeuralNetworksDevice* device, int32_t* type) {
  return guarded([&] {
    require(device, type);
    *type = device->type;
  });
}

NNAPI_EXPORT int ANeuralNetworksDevice_getFeatureLevel(const ANeuralNetworksDevice* device, int64_t* level) {
  return guarded([&] {
    require(device, level);
    *level = device->feature_level;
  });
}

NNAPI_EXPORT int ANeuralNetworksMemory_createFromFd(size_t size, int protect, int descriptor, size_t offset,
                                                    ANeuralNetworksMemory** memory) {
  return guarded([&] {
    require(memory);
    *memory = nullptr;
    *memory = new ANeuralNetworksMemory{std::make_shared<const Memory>(size, protect, descriptor, offset)};
  });
}

NNAPI_EXPORT void ANeuralNetworksMemory_free(ANeuralNetworksMemory* memory) { delete memory; }

NNAPI_EXPORT int ANeuralNetworksModel_create(ANeuralNetworksModel** model) {
  return guarded([&] {
    require(model);
    *model = nullptr;
    *model = new ANeuralNetworksModel;
  });
}

NNAPI_EXPORT void ANeuralNetworksModel_free(ANeuralNetworksModel* model) { delete model; }

NNAPI_EXPORT int ANeuralNetworksModel_addOperand(ANeuralNetworksModel* model, const ANeuralNetworksOperandType* type) {
  return guarded([&] {
    require(model, type);
    model->model->add_operand(*type);
  });
}

NNAPI_EXPORT int ANeuralNetworksModel_setOperandValue(ANeuralNetworksModel* model, int32_t index, const void* buffer,
                                                      size_t length) {
  return guarded([&] {
    require(model);
    model->model->set_value(index, buffer, length);
  });
}

NNAPI_EXPORT int ANeuralNetworksModel_setOperandValueFromMemory(ANeuralNetworksModel* model, int32_t index,
                                                                const ANeuralNetworksMemory* memory, size_t offset,
                                                                size_t length) {
  return guarded([&] {
    require(model, memory);
    model->model->require_value_fits(index, length);
    model->model->set_value(index, memory->memory->read(offset, length).data(), length);
  });
}

NNAPI_EXPORT int ANeuralNetworksModel_setOperandSymmPerChannelQuantParams(
    ANeuralNetworksModel* model, int32_t index, const ANeuralNetworksSymmPerChannelQuantParams* scales) {
  return guarded([&] {
    require(model, scales);
    model->model->set_channel_scales(index, *scales);
  });
}

NNAPI_EXPORT int ANeuralNetworksModel_addOperation(ANeuralNetworksModel* model, int32_t code, uint32_t input_count,
                                                   const uint32_t* inputs, uint32_t output_count,
                                                   const uint32_t* outputs) {
  return guarded([&] {
    require(model);
    model->model->add_operation(code, input_count, inputs, output_count, outputs);
  });
}

NNAPI_EXPORT int ANeuralNetworksModel_identifyInputsAndOutputs(ANeuralNetworksModel* model, uint32_t input_count,
                                                               const uint32_t* inputs, uint32_t output_count,
                                                               const uint32_t* outputs) {
  return guarded([&] {
    require(model);
    model->model->identify(input_count, inputs, output_count, outputs);
  });
}

NNAPI_EXPORT int ANeuralNetworksModel_relaxComputationFloat32toFloat16(ANeuralNetworksModel* model, bool allow) {
  return guarded([&] {
    require(model);
    model->model->require_open();
    model->model->relaxed = allow;
  });
}

NNAPI_EXPORT int ANeuralNetworksModel_finish(ANeuralNetworksModel* model) {
  return guarded([&] {
    require(model);
    model->model->finish();
  });
}

NNAPI_EXPORT int ANeuralNetworksModel_getSupportedOperationsForDevices(const ANeuralNetworksModel* model,
                                                                       const ANeuralNetworksDevice* const* devices,
                                                                       uint32_t count, bool* supported) {
  return guarded([&] {
    require(supported);
    require_devices(devices, count);
    for (const Operation& operation : finished(model).operations) {
      supported[operation.number] = any_takes_all(devices, count) || Compilation::accelerated(*model->model, operation);
    }
  });
}

NNAPI_EXPORT int ANeuralNetworksCompilation_create(ANeuralNetworksModel* model,
                                                   ANeuralNetworksCompilation** compilation) {
  return guarded([&] {
    require(compilation);
    *compilation = nullptr;
    finished(model);
    *compilation = new ANeuralNetworksCompilation{{model->model, false, false}};
  });
}

NNAPI_EXPORT int ANeuralNetworksCompilation_createForDevices(ANeuralNetworksModel* model,
                                                             const ANeuralNetworksDevice* const* devices,
                                                             uint32_t count, ANeuralNetworksCompilation** compilation) {
  return guarded([&] {
    require(compilation);
    *compilation = nullptr;
    finished(model);
    require_devices(devices, count);
    *compilation = new ANeuralNetworksCompilation{{model->model, !any_takes_all(devices, count), false}};
  });
}

NNAPI_EXPORT void ANeuralNetworksCompilation_free(ANeuralNetworksCompilation* compilation) { delete compilation; }

NNAPI_EXPORT int ANeuralNetworksCompilation_setPreference(ANeuralNetworksCompilation* compilation, int32_t preference) {
  return guarded([&] {
    require(compilation);
    if (compilation->compilation.finished) {
      fail(kBadState, "the compilation is finished and can not change any more");
    }
    if (preference < 0 || preference > 2) {
      fail(kBadData, "there is no preference ", preference);
    }
  });
}

NNAPI_EXPORT int ANeuralNetworksCompilation_finish(ANeuralNetworksCompilation* compilation) {
  return guarded([&] {
    require(compilation);
    compilation->compilation.finish();
  });
}

NNAPI_EXPORT int ANeuralNetworksExecution_create(ANeuralNetworksCompilation* compilation,
                                                 ANeuralNetworksExecution** execution) {
  return guarded([&] {
    require(compilation, execution);
    *execution = nullptr;
    if (!compilation->compilation.finished) {
      fail(kBadState, "the compilation is not finished");
    }
    *execution = new ANeuralNetworksExecution{std::make_shared<Execution>(compilation->compilation.model)};
  });
}

NNAPI_EXPORT void ANeuralNetworksExecution_free(ANeuralNetworksExecution* execution) { delete execution; }

NNAPI_EXPORT int ANeuralNetworksExecution_setInput(ANeuralNetworksExecution* execution, int32_t index,
                                                   const ANeuralNetworksOperandType* type, const void* buffer,
                                                   size_t length) {
  return guarded([&] {
    require(execution);
    execution->execution->set_input(index, type, place_of(buffer, length));
  });
}

NNAPI_EXPORT int ANeuralNetworksExecution_setInputFromMemory(ANeuralNetworksExecution* execution, int32_t index,
                                                             const ANeuralNetworksOperandType* type,
                                                             const ANeuralNetworksMemory* memory, size_t offset,
                                                             size_t length) {
  return guarded([&] {
    require(execution);
    execution->execution->set_input(index, type, place_of(memory, offset, length));
  });
}

NNAPI_EXPORT int ANeuralNetworksExecution_setOutput(ANeuralNetworksExecution* execution, int32_t index,
                                                    const ANeuralNetworksOperandType* type, void* buffer,
                                                    size_t length) {
  return guarded([&] {
    require(execution);
    execution->execution->set_output(index, type, place_of(buffer, length));
  });
}

NNAPI_EXPORT int ANeuralNetworksExecution_setOutputFromMemory(ANeuralNetworksExecution* execution, int32_t index,
                                                              const ANeuralNetworksOperandType* type,
                                                              const ANeuralNetworksMemory* memory, size_t offset,
                                                              size_t length) {
  return guarded([&] {
    require(execution);
    execution->execution->set_output(index, type, place_of(memory, offset, length));
  });
}

NNAPI_EXPORT int ANeuralNetworksExecution_compute(ANeuralNetworksExecution* execution) {
  return guarded([&] {
    require(execution);
    execution->execution->start();
    execution->execution->compute();
  });
}

NNAPI_EXPORT int ANeuralNetworksExecution_startCompute(ANeuralNetworksExecution* execution,
                                                       ANeuralNetworksEvent** event) {
  return guarded([&] {
    require(execution, event);
    *event = nullptr;
    auto started = std::make_unique<ANeuralNetworksEvent>();
    execution->execution->start();
    started->outcome = std::async(std::launch::async,
                                  [running = execution->execution] { return outcome_of([&] { running->compute(); }); });
    *event = started.release();
  });
}

NNAPI_EXPORT int ANeuralNetworksEvent_wait(ANeuralNetworksEvent* event) {
  return guarded([&] {
    require(event);
    if (const Failure outcome = event->outcome.get(); outcome.code != kNoError) {
      throw outcome;
    }
  });
}

NNAPI_EXPORT void ANeuralNetworksEvent_free(ANeuralNetworksEvent* event) { delete event; }

NNAPI_EXPORT int ANeuralNetworksExecution_getOutputOperandRank(ANeuralNetworksExecution* execution, int32_t index,
                                                               uint32_t* rank) {
  return guarded([&] {
    require(execution, rank);
    *rank = static_cast<uint32_t>(execution->execution->output_sizes(index).size());
    execution->execution->require_room(index);
  });
}

NNAPI_EXPORT int ANeuralNetworksExecution_getOutputOperandDimensions(ANeuralNetworksExecution* execution, int32_t index,
                                                                     uint32_t* dimensions) {
  return guarded([&] {
    require(execution, dimensions);
    const Sizes sizes = execution->execution->output_sizes(index);
    std::copy(sizes.begin(), sizes.end(), dimensions);
    execution->execution->require_room(index);
  });
}
