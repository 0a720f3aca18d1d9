/* Tells libFuzzer, which is in the package atheris, which edges of the engine an input has taken.
 *
 * gcc calls __sanitizer_cov_trace_pc at each edge, and libFuzzer wants counters: each edge counts in
 * a place that its address is hashed to. All else is passed on as it is, from Python's code, too.
 * Preloaded in front of the sanitizer, whose functions of these names do nothing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

enum { PLACES = 1 << 16 };

typedef void (*trace_1)(uint8_t, uint8_t);
typedef void (*trace_2)(uint16_t, uint16_t);
typedef void (*trace_4)(uint32_t, uint32_t);
typedef void (*trace_8)(uint64_t, uint64_t);
typedef void (*trace_table)(uint64_t, uint64_t *);
typedef void (*announce)(void *, void *);

static uint8_t counters[PLACES];
static uintptr_t table[2 * PLACES]; /* libFuzzer wants an address and flags for each counter */
static trace_1 on_cmp1, on_const1;
static trace_2 on_cmp2, on_const2;
static trace_4 on_cmp4, on_const4;
static trace_8 on_cmp8, on_const8;
static trace_table on_switch;
static announce on_counters, on_table;

void __sanitizer_cov_trace_pc(void) {
    uintptr_t at = (uintptr_t)__builtin_return_address(0);
    counters[(at ^ (at >> 16)) & (PLACES - 1)]++;
}

void __sanitizer_cov_trace_cmp1(uint8_t a, uint8_t b) { if (on_cmp1) on_cmp1(a, b); }
void __sanitizer_cov_trace_cmp2(uint16_t a, uint16_t b) { if (on_cmp2) on_cmp2(a, b); }
void __sanitizer_cov_trace_cmp4(uint32_t a, uint32_t b) { if (on_cmp4) on_cmp4(a, b); }
void __sanitizer_cov_trace_cmp8(uint64_t a, uint64_t b) { if (on_cmp8) on_cmp8(a, b); }
void __sanitizer_cov_trace_const_cmp1(uint8_t a, uint8_t b) { if (on_const1) on_const1(a, b); }
void __sanitizer_cov_trace_const_cmp2(uint16_t a, uint16_t b) { if (on_const2) on_const2(a, b); }
void __sanitizer_cov_trace_const_cmp4(uint32_t a, uint32_t b) { if (on_const4) on_const4(a, b); }
void __sanitizer_cov_trace_const_cmp8(uint64_t a, uint64_t b) { if (on_const8) on_const8(a, b); }
void __sanitizer_cov_trace_cmpf(float a, float b) { (void)a; (void)b; }
void __sanitizer_cov_trace_cmpd(double a, double b) { (void)a; (void)b; }
void __sanitizer_cov_trace_switch(uint64_t value, uint64_t *cases) {
    if (on_switch) on_switch(value, cases);
}

void __sanitizer_cov_8bit_counters_init(void *first, void *end) {
    if (on_counters) on_counters(first, end);
}
void __sanitizer_cov_pcs_init(void *first, void *end) {
    if (on_table) on_table(first, end);
}

/* `path`: of the library with libFuzzer, which is loaded. 0: it has what is needed. */
int fuzz_coverage_start(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (!library) return 1;
    on_counters = (announce)dlsym(library, "__sanitizer_cov_8bit_counters_init");
    on_table = (announce)dlsym(library, "__sanitizer_cov_pcs_init");
    on_cmp1 = (trace_1)dlsym(library, "__sanitizer_cov_trace_cmp1");
    on_cmp2 = (trace_2)dlsym(library, "__sanitizer_cov_trace_cmp2");
    on_cmp4 = (trace_4)dlsym(library, "__sanitizer_cov_trace_cmp4");
    on_cmp8 = (trace_8)dlsym(library, "__sanitizer_cov_trace_cmp8");
    on_const1 = (trace_1)dlsym(library, "__sanitizer_cov_trace_const_cmp1");
    on_const2 = (trace_2)dlsym(library, "__sanitizer_cov_trace_const_cmp2");
    on_const4 = (trace_4)dlsym(library, "__sanitizer_cov_trace_const_cmp4");
    on_const8 = (trace_8)dlsym(library, "__sanitizer_cov_trace_const_cmp8");
    on_switch = (trace_table)dlsym(library, "__sanitizer_cov_trace_switch");
    if (!on_counters || !on_table || !on_cmp8) return 2;
    for (uintptr_t place = 0; place < PLACES; place++) table[2 * place] = place + 1;
    on_counters(counters, counters + PLACES);
    on_table(table, table + 2 * PLACES);
    return 0;
}
