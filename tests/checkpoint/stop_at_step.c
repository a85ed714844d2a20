/* Preloaded into the command by publish_test.py: ends the process by SIGKILL before the N-th call
 * that changes a name or waits for the disk. ROWSCALE_STOP_AT=N; with ROWSCALE_NO_EXCHANGE set,
 * folders cannot be exchanged, as on file systems without that. What was written outlives a kill,
 * so nothing waits for the disk here, and thousands of runs take no time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static void step(void) {
  static atomic_long steps = 0;
  const char* at = getenv("ROWSCALE_STOP_AT");
  if (at != NULL && atomic_fetch_add(&steps, 1) + 1 == atol(at)) kill(getpid(), SIGKILL);
}

#define STEP(name, parameters, arguments)             \
  int name parameters {                               \
    static int(*next) parameters;                     \
    if (next == NULL) next = dlsym(RTLD_NEXT, #name); \
    step();                                           \
    return next arguments;                            \
  }

STEP(rename, (const char* from, const char* to), (from, to))
STEP(unlink, (const char* path), (path))
STEP(unlinkat, (int folder, const char* path, int flags), (folder, path, flags))
STEP(remove, (const char* path), (path))
STEP(rmdir, (const char* path), (path))
STEP(mkdir, (const char* path, mode_t mode), (path, mode))
STEP(flock, (int file, int operation), (file, operation))
STEP(ftruncate, (int file, off_t length), (file, length))

int fsync(int file) {
  step();
  return file < 0 ? -1 : 0;
}

int fdatasync(int file) {
  return fsync(file);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  static int (*next)(int, const char*, int, const char*, unsigned);
  if (next == NULL) next = dlsym(RTLD_NEXT, "renameat2");
  step();
  if (getenv("ROWSCALE_NO_EXCHANGE") != NULL) {
    errno = EINVAL;
    return -1;
  }
  return next(from_folder, from, to_folder, to, flags);
}
