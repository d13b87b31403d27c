/* SPDX-License-Identifier: Apache-2.0 */
/* Windows 8 and later. */
#define _WIN32_WINNT 0x0602 /* WaitOnAddress */
#define WIN32_LEAN_AND_MEAN
#include "core/os.h"

#include <windows.h>

#include <malloc.h>
#include <process.h>

#include "core/alloc.h"
#include "core/error.h"

/* ---- Memory and time ------------------------------------------------------------------------- */

void *tw_os_aligned_alloc(size_t bytes, size_t alignment)
{
    return _aligned_malloc(bytes ? bytes : 1, alignment);
}

void tw_os_aligned_free(void *pointer) { _aligned_free(pointer); }

int64_t tw_os_nanoseconds(void)
{
    LARGE_INTEGER ticks, frequency;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&frequency);
    /* Whole seconds aside, so that the product stays within 64 bits. */
    int64_t seconds = ticks.QuadPart / frequency.QuadPart;
    int64_t rest = ticks.QuadPart % frequency.QuadPart;
    return seconds * 1000000000 + rest * 1000000000 / frequency.QuadPart;
}

int64_t tw_os_memory_bytes(void)
{
    MEMORYSTATUSEX status = {.dwLength = sizeof status};
    return GlobalMemoryStatusEx(&status) ? (int64_t)status.ullTotalPhys : 0;
}

/* ---- Processors and caches ------------------------------------------------------------------- */

int tw_os_cpu_count(void)
{
    DWORD_PTR process = 0, system = 0;
    GetProcessAffinityMask(GetCurrentProcess(), &process, &system);
    int cpus = 0;
    for (; process != 0; process &= process - 1) cpus++;
    /* The mask covers one processor group and is zero when threads are in several. */
    if (cpus == 0) cpus = (int)GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    return cpus > 0 ? cpus : 1;
}

int64_t tw_os_cache_bytes(int level)
{
    DWORD bytes = 0;
    int64_t found = 0;
    GetLogicalProcessorInformation(NULL, &bytes);
    SYSTEM_LOGICAL_PROCESSOR_INFORMATION *list = tw_malloc(bytes);
    if (list && GetLogicalProcessorInformation(list, &bytes)) {
        for (DWORD i = 0; i < bytes / sizeof *list && found == 0; i++) {
            const CACHE_DESCRIPTOR *cache = &list[i].Cache;
            if (list[i].Relationship != RelationCache || cache->Type == CacheInstruction) continue;
            if (cache->Level == level) found = cache->Size;
        }
    }
    tw_free(list);
    return found;
}

/* There is no fork. */
uint32_t tw_os_fork_generation(void) { return 0; }

/* ---- Threads --------------------------------------------------------------------------------- */

struct tw_thread {
    HANDLE handle;
    void (*entry)(void *);
    void *arg;
};

static unsigned __stdcall thread_main(void *pointer)
{
    tw_thread *thread = pointer;
    thread->entry(thread->arg);
    return 0;
}

tw_status tw_os_thread_start(void (*entry)(void *), void *arg, tw_thread **thread)
{
    void *memory;
    TW_TRY(tw_calloc(1, sizeof(tw_thread), &memory));
    tw_thread *started = memory;
    started->entry = entry;
    started->arg = arg;
    started->handle = (HANDLE)_beginthreadex(NULL, 0, thread_main, started, 0, NULL);
    if (!started->handle) {
        tw_free(started);
        return tw_fail(TW_OUT_OF_MEMORY, "the system refused to start a thread");
    }
    *thread = started;
    return TW_OK;
}

void tw_os_thread_join(tw_thread *thread)
{
    if (!thread) return;
    WaitForSingleObject(thread->handle, INFINITE);
    CloseHandle(thread->handle);
    tw_free(thread);
}

void tw_os_thread_forget(tw_thread *thread) { tw_free(thread); }

/* ---- Ends of threads ------------------------------------------------------------------------- */

static DWORD exit_slot = FLS_OUT_OF_INDEXES;
static INIT_ONCE exit_once = INIT_ONCE_STATIC_INIT;

static void NTAPI call_hooks(void *first)
{
    for (tw_thread_exit *hook = first, *next; hook; hook = next) {
        next = hook->next;
        hook->call(hook);
    }
}

static BOOL CALLBACK make_exit_slot(INIT_ONCE *once, void *arg, void **context)
{
    (void)once, (void)arg, (void)context;
    exit_slot = FlsAlloc(call_hooks);
    return TRUE;
}

bool tw_os_at_thread_exit(tw_thread_exit *hook)
{
    InitOnceExecuteOnce(&exit_once, make_exit_slot, NULL, NULL);
    if (exit_slot == FLS_OUT_OF_INDEXES) return false;
    hook->next = FlsGetValue(exit_slot);
    return FlsSetValue(exit_slot, hook) != 0;
}

void tw_os_cancel_thread_exit(tw_thread_exit *hook)
{
    tw_thread_exit *first = FlsGetValue(exit_slot);
    if (first == hook) FlsSetValue(exit_slot, hook->next);
    for (; first; first = first->next)
        if (first->next == hook) first->next = hook->next;
}

/* ---- Locks and waiting ----------------------------------------------------------------------- */

_Static_assert(sizeof(SRWLOCK) <= sizeof(tw_mutex), "tw_mutex is too small");

void tw_os_lock(tw_mutex *mutex) { AcquireSRWLockExclusive((SRWLOCK *)(void *)mutex); }
void tw_os_unlock(tw_mutex *mutex) { ReleaseSRWLockExclusive((SRWLOCK *)(void *)mutex); }

void tw_os_wait(uint32_t *word, uint32_t expected)
{
    WaitOnAddress(word, &expected, sizeof expected, INFINITE);
}

void tw_os_wake_all(uint32_t *word) { WakeByAddressAll(word); }
void tw_os_pause(void) { YieldProcessor(); }
void tw_os_yield(void) { SwitchToThread(); }
