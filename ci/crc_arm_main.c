/* Runs every CRC-32C path of this processor against the table; ci/arm_crc builds and starts it.
 *
 * Exit 0: all agree. 1: a difference, printed. 2: the processor shows no CRC instructions.
 */
#include <stdio.h>

#include "c/fp_crc32c.h"

#define NOISE_BYTES (1 << 20)
#define SHORT_BYTES 2000
#define ROUND_BYTES (3 * 8 * FP_CRC32C_LANE_WORDS)

static uint8_t noise[NOISE_BYTES + 8];
static long check_count;

static uint32_t next_random(void) {
    static uint64_t state = 88172645463325252ULL;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

static int differ(const fp_crc32c_path *path, uint32_t crc, size_t start, size_t n) {
    uint32_t expected = fp_crc32c_table_update(crc, noise + start, n);
    uint32_t got = path->update(crc, noise + start, n);
    check_count++;
    if (got == expected) return 0;
    printf("%s: %zu bytes at offset %zu after %08x: got %08x, the table gives %08x\n",
           path->name, n, start, crc, got, expected);
    return 1;
}

static int check_lengths(const fp_crc32c_path *path) {
    for (size_t start = 0; start < 8; start++) {
        for (size_t n = 0; n <= SHORT_BYTES; n++) {
            if (differ(path, next_random(), start, n)) return 1;
        }
    }
    for (size_t rounds = 1; rounds <= 3; rounds++) {
        for (size_t n = rounds * ROUND_BYTES - 40; n < rounds * ROUND_BYTES + 160; n++) {
            if (differ(path, next_random(), n & 7, n)) return 1;
        }
    }
    for (int i = 0; i < 100; i++) {
        if (differ(path, next_random(), next_random() & 7, next_random() % NOISE_BYTES)) return 1;
    }
    return 0;
}

static int check_combine(const fp_crc32c_path *path) {
    for (int i = 0; i < 3000; i++) {
        size_t len_a = next_random() % 5000, len_b = next_random() % 5000;
        uint32_t crc_a = fp_crc32c_table_update(0, noise, len_a);
        uint32_t crc_b = fp_crc32c_table_update(0, noise + len_a, len_b);
        uint32_t expected = fp_crc32c_table_update(0, noise, len_a + len_b);
        uint32_t got = fp_crc32c_combine(path->multiply, crc_a, crc_b, len_b);
        check_count++;
        if (got != expected) {
            printf("%s: combining %zu and %zu bytes: got %08x, the whole has %08x\n",
                   path->name, len_a, len_b, got, expected);
            return 1;
        }
    }
    return 0;
}

int main(void) {
    fp_crc32c_setup();
    for (size_t i = 0; i < sizeof noise; i++) noise[i] = (uint8_t)next_random();
    for (int i = 0; i < fp_crc32c_path_count; i++) {
        const fp_crc32c_path *path = &fp_crc32c_paths[i];
        uint32_t known = path->update(0, (const uint8_t *)"123456789", 9);
        check_count = 0;
        if (known != 0xE3069283U) {
            printf("%s: the check value is %08x, not e3069283\n", path->name, known);
            return 1;
        }
        if (check_lengths(path) || check_combine(path)) return 1;
        printf("%s: %ld checks agree with the table\n", path->name, check_count);
    }
    printf("chosen: %s\n", fp_crc32c_paths[0].name);
    if (fp_crc32c_path_count != 3) {
        printf("expected three paths, this processor shows %d\n", fp_crc32c_path_count);
        return 2;
    }
    return 0;
}
