// Memory that a caller shares by a file descriptor.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nnapi_types.h"

namespace nnapi {

// A part of a file or of shared memory. It is read and written, not mapped: a file that becomes shorter is an error
// then, not a fault.
class Memory {
 public:
  Memory(size_t size, int protect, int descriptor, size_t offset) : size_(size), protect_(protect), offset_(offset) {
    struct stat file{};
    if (fstat(descriptor, &file) != 0 || !S_ISREG(file.st_mode)) {
      fail(kUnmappable, "file descriptor ", descriptor, " is no file and no shared memory");
    }
    const auto end = static_cast<size_t>(file.st_size);
    if (size == 0 || offset > end || size > end - offset) {
      fail(kBadData, "memory of ", size, " bytes at ", offset, " is not inside the file's ", end, " bytes");
    }
    descriptor_ = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (descriptor_ < 0) {
      fail(kUnmappable, "file descriptor ", descriptor, " can not be duplicated");
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { close(descriptor_); }

  void require_inside(size_t offset, size_t length) const {
    if (offset > size_ || length > size_ - offset) {
      fail(kBadData, length, " bytes at ", offset, " are not inside a memory of ", size_);
    }
  }

  std::vector<char> read(size_t offset, size_t length) const {
    require_inside(offset, length);
    if (!(protect_ & PROT_READ)) {
      fail(kBadData, "the memory was not created to be read");
    }
    std::vector<char> bytes(length);
    for (size_t done = 0; done < length;) {
      const ssize_t got =
          pread(descriptor_, bytes.data() + done, length - done, static_cast<off_t>(offset_ + offset + done));
      if (got <= 0) {
        fail(kOpFailed, "the memory can not be read at ", offset + done);
      }
      done += got;
    }
    return bytes;
  }

  void write(size_t offset, const void* bytes, size_t length) const {
    require_inside(offset, length);
    if (!(protect_ & PROT_WRITE)) {
      fail(kBadData, "the memory was not created to be written");
    }
    for (size_t done = 0; done < length;) {
      const ssize_t put = pwrite(descriptor_, static_cast<const char*>(bytes) + done, length - done,
                                 static_cast<off_t>(offset_ + offset + done));
      if (put <= 0) {
        fail(kOpFailed, "the memory can not be written at ", offset + done);
      }
      done += put;
    }
  }

 private:
  size_t size_;
  int protect_;
  size_t offset_;
  int descriptor_ = -1;
};

}  // namespace nnapi
