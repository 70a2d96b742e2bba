// What stands behind the opaque pointers of the C interface, and how its calls end.
#pragma once

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
