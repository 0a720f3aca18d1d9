/* A pthread with every signal blocked, so that Ctrl-C and friends reach Python's main thread. */
#ifndef FP_THREAD_H
#define FP_THREAD_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <signal.h>

typedef void *(*fp_thread_main)(void *);

static inline int fp_thread_start(pthread_t *thread, fp_thread_main run, void *argument,
                                  const char *name) {
    sigset_t all, before;
    int failed;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
#ifdef __linux__
    if (!failed) pthread_setname_np(*thread, name);
#endif
    return failed;
}

#endif
