// The runner's own process: its CPUs, its allocator, its memory, its clock.
#pragma once

#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runner_arguments.h"
#include "runner_events.h"

inline int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

inline std::optional<int64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

// The CPUs that are switched on, by kind of core, from little to big; one kind where the system does not tell.
// As `clusters` in workers/devices/cores.py.
inline std::vector<std::set<int>> clusters() {
  const std::string root = "/sys/devices/system/cpu/cpu";
  std::set<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    const std::string folder = root + std::to_string(cpu);
    if (access(folder.c_str(), F_OK) == 0 && number_in(folder + "/online") != 0) {  // the first often has no switch
      cpus.insert(cpu);
    }
  }
  for (const char* sign : {"/cpu_capacity", "/cpufreq/cpuinfo_max_freq"}) {
    std::map<int64_t, std::set<int>> kinds;
    size_t told = 0;
    for (const int cpu : cpus) {
      if (const auto strength = number_in(root + std::to_string(cpu) + sign)) {
        kinds[*strength].insert(cpu);
        ++told;
      }
    }
    if (told == cpus.size() && kinds.size() > 1) {
      std::vector<std::set<int>> found;
      for (const auto& kind : kinds) {
        found.push_back(kind.second);
      }
      return found;
    }
  }
  return {cpus};
}

inline std::vector<int64_t> cpus_now() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<int64_t> found;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &allowed)) {
        found.push_back(cpu);
      }
    }
  }
  return found;
}

// `all`, `big`, `little` or a list such as `0,1`. Before any thread starts: threads inherit their CPUs.
inline void pin(const std::string& cpus) {
  if (cpus == "all") {
    return;
  }
  const auto refuse = [&](const std::string& why) {
    throw GiveUp{"bad_cpus", "the CPUs '" + cpus + "' can not be had: " + why};
  };
  std::set<int> wanted;
  if (cpus == "big" || cpus == "little") {
    const auto kinds = clusters();
    if (kinds.size() < 2) {
      throw GiveUp{"bad_cpus", "this machine has one kind of core as far as it tells, so there are no " + cpus +
                                   " ones; use all"};
    }
    wanted = cpus == "big" ? kinds.back() : kinds.front();
  } else {
    for (const std::string& word : split(cpus, ',')) {
      if (word.empty() || word.size() > 9 || word.find_first_not_of("0123456789") != std::string::npos) {
        refuse("'" + word + "' is no CPU");
      }
      wanted.insert(std::stoi(word));
    }
  }
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int cpu : wanted) {
    if (cpu >= CPU_SETSIZE) {
      refuse(std::to_string(cpu) + " is off or not allowed");
    }
    CPU_SET(cpu, &mask);
  }
  if (sched_setaffinity(0, sizeof mask, &mask) != 0) {
    refuse(std::strerror(errno));
  }
  for (const int64_t cpu : cpus_now()) {
    wanted.erase(static_cast<int>(cpu));
  }
  if (!wanted.empty()) {
    refuse(std::to_string(*wanted.begin()) + " is off or not allowed");
  }
}

// Let freed memory stay with the process, as the allocators of phones do. runner/process.py says what it is worth.
inline void keep_memory() {
#ifdef __GLIBC__
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
#endif
}

// A line of /proc/self/status, in bytes.
inline std::optional<int64_t> status_bytes(const std::string& field) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    int64_t kilobytes = 0;
    if (word == field + ":") {
      return file >> kilobytes ? std::optional(kilobytes * 1024) : std::nullopt;
    }
  }
  return std::nullopt;
}

inline void forget_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

inline int64_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return status_bytes("VmHWM").value_or(int64_t{usage.ru_maxrss} * 1024);
}
