// A libneuralnetworks.so for the host: Android's Neural Networks API in C, as PyTorch's runtime calls it, computed by
// libtorch's kernels. It says what a model computes and whether it is well formed, never how fast a phone is.
//
// Every call returns NNAPI's result code and lets no exception out; edgesweep_reference_last_error() says why the last
// call of this thread failed.
#include "nnapi_execution.h"

using namespace nnapi;

struct ANeuralNetworksMemory {
  std::shared_ptr<const Memory> memory;
};
struct ANeuralNetworksModel {
  std::shared_ptr<Model> model = std::make_shared<Model>();
};
struct ANeuralNetworksCompilation {
  Compilation compilation;
};
struct ANeuralNetworksExecution {
  std::shared_ptr<Execution> execution;
};
struct ANeuralNetworksEvent {
  std::shared_future<Failure> outcome;  // code 0 where nothing failed
};
struct ANeuralNetworksDevice {
  const char* name;
  const char* version;
  int32_t type;
  int64_t feature_level;
  bool convolutions_only;
};

namespace {

constexpr int32_t kTypeCpu = 2;
constexpr int32_t kTypeAccelerator = 4;
constexpr int64_t kFeatureLevel4 = 30;

constexpr ANeuralNetworksDevice kDevices[] = {
    {"edgesweep-reference-conv8", "1", kTypeAccelerator, kFeatureLevel4, true},
    {"edgesweep-reference-all", "1", kTypeCpu, kFeatureLevel4, false},
};

thread_local std::string last_error;

template <class Body>
Failure outcome_of(const Body& body) noexcept {
  try {
    try {
      body();
      return {kNoError, {}};
    } catch (const Failure& failure) {
      return failure;
    } catch (const std::bad_alloc&) {
      return {kOutOfMemory, "there is not enough memory"};
    } catch (const c10::Error& error) {
      return {kOpFailed, error.what_without_backtrace()};
    } catch (const std::exception& error) {
      return {kOpFailed, error.what()};
    }
  } catch (...) {
    return {kOutOfMemory, {}};
  }
}

int reported(Failure failure) noexcept {
  if (failure.code != kNoError) {
    last_error = std::move(failure.sentence);
  }
  return failure.code;
}

template <class Body>
int guarded(const Body& body) noexcept {
  return reported(outcome_of(body));
}

template <class... Pointers>
void require(const Pointers*... pointers) {
  if (((pointers == nullptr) || ...)) {
    fail(kUnexpectedNull, "an argument is null");
  }
}

Place place_of(const void* buffer, size_t length) {
  Place place;
  place.set = true;
  place.buffer = const_cast<void*>(buffer);
  place.length = length;
  place.omitted = buffer == nullptr;
  if (place.omitted && length != 0) {
    fail(kUnexpectedNull, "the buffer is null, but ", length, " bytes long");
  }
  return place;
}

Place place_of(const ANeuralNetworksMemory* memory, size_t offset, size_t length) {
  require(memory);
  memory->memory->require_inside(offset, length);
  Place place;
  place.set = true;
  place.memory = memory->memory;
  place.offset = offset;
  place.length = length;
  return place;
}

const Model& finished(const ANeuralNetworksModel* model) {
  require(model);
  if (!model->model->finished) {
    fail(kBadState, "the model is not finished");
  }
  return *model->model;
}

void require_devices(const ANeuralNetworksDevice* const* devices, uint32_t count) {
  require(devices);
  if (count == 0 || count > std::size(kDevices)) {
    fail(kBadData, count, " devices were named; there are ", std::size(kDevices));
  }
  for (uint32_t i = 0; i < count; ++i) {
    require(devices[i]);
    if (std::find(devices, devices + i, devices[i]) != devices + i) {
      fail(kBadData, "device ", devices[i]->name, " was named twice");
    }
  }
}

bool any_takes_all(const ANeuralNetworksDevice* const* devices, uint32_t count) {
  return std::any_of(devices, devices + count,
                     [](const ANeuralNetworksDevice* one) { return !one->convolutions_only; });
}

}  // namespace

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
