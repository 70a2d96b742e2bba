// Hides AVX-512, AMX and what came with them from a process: libraries choose their kernels as on a CPU with AVX2.
//
//     cc -shared -fPIC -Wl,-z,initfirst -o hide.so hide_avx512.c && LD_PRELOAD=$PWD/hide.so PROGRAM
//
// Linux lets the instruction CPUID fault (arch_prctl(2), ARCH_SET_CPUID), where the CPU can: "cpuid_fault" in
// /proc/cpuinfo. The handler answers in its place. The instructions themselves still work, and nothing that is timed
// asks for them again. What the dynamic linker has chosen before, as glibc's memcpy, is that of the real CPU;
// `initfirst` is for libraries whose constructors ask.

#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define ARCH_SET_CPUID 0x1012
#define BIT(n) (1u << (n))

// Leaf 7: f, dq, ifma, pf, er, cd, bw, vl; vbmi, vbmi2, vnni, bitalg, vpopcntdq; 4vnniw, 4fmaps, vp2intersect, AMX bf16,
// fp16, tile, int8. Its sub-leaf 1: AVX-VNNI, bf16, AMX fp16; AMX complex, AVX10.
static const uint32_t kEbx = BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31);
static const uint32_t kEcx = BIT(1) | BIT(6) | BIT(11) | BIT(12) | BIT(14);
static const uint32_t kEdx = BIT(2) | BIT(3) | BIT(8) | BIT(22) | BIT(23) | BIT(24) | BIT(25);
static const uint32_t kEaxOfOne = BIT(4) | BIT(5) | BIT(21);
static const uint32_t kEdxOfOne = BIT(8) | BIT(19);

static long cpuid_works(long yes) { return syscall(SYS_arch_prctl, ARCH_SET_CPUID, yes); }

static void on_fault(int number, siginfo_t *info, void *context) {
  (void)info;
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  const unsigned char *at = (const unsigned char *)registers[REG_RIP];
  if (at[0] != 0x0f || at[1] != 0xa2) {  // not CPUID: what would have been without us
    signal(number, SIG_DFL);
    return;
  }
  uint32_t eax = registers[REG_RAX], ecx = registers[REG_RCX], ebx, edx;
  const uint32_t leaf = eax, part = ecx;
  cpuid_works(1);
  __asm__ volatile("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
  cpuid_works(0);
  if (leaf == 7 && part == 0) {
    ebx &= ~kEbx;
    ecx &= ~kEcx;
    edx &= ~kEdx;
  }
  if (leaf == 7 && part == 1) {
    eax &= ~kEaxOfOne;
    edx &= ~kEdxOfOne;
  }
  registers[REG_RAX] = eax;
  registers[REG_RBX] = ebx;
  registers[REG_RCX] = ecx;
  registers[REG_RDX] = edx;
  registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void begin(void) {
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
  if (sigaction(SIGSEGV, &action, NULL) != 0 || cpuid_works(0) != 0) {
    perror("hide_avx512: CPUID cannot be made to fault here (cpuid_fault in /proc/cpuinfo?)");
    _exit(127);
  }
}
