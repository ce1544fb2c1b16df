/* text.c: byte buffer, string map, UTF-8 check, edit distance. */
#include "base/text.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

/* ---- buffer ---- */

void rs_buffer_free(rs_buffer *buffer)
{
    rs_free(buffer->data);
    *buffer = (rs_buffer){0};
}

/* Makes room for `more` bytes and the NUL. */
static bool reserve_bytes(rs_buffer *buffer, size_t more)
{
    size_t need;
    if (buffer->failed) return false;
    if (!rs_size_add(buffer->length, more, &need) || !rs_size_add(need, 1, &need)) goto failed;
    if (need <= buffer->capacity) return true;
    size_t wanted = buffer->capacity ? buffer->capacity : 256;
    while (wanted < need)
        if (!rs_size_mul(wanted, 2, &wanted)) goto failed;
    char *grown = rs_realloc(buffer->data, wanted, 1);
    if (!grown) goto failed;
    buffer->data = grown;
    buffer->capacity = wanted;
    return true;
failed:
    buffer->failed = true;
    return false;
}

void rs_buffer_append(rs_buffer *buffer, const char *bytes, size_t length)
{
    if (!reserve_bytes(buffer, length)) return;
    if (length) memcpy(buffer->data + buffer->length, bytes, length);
    buffer->length += length;
    buffer->data[buffer->length] = 0;
}

void rs_buffer_puts(rs_buffer *buffer, const char *text)
{
    rs_buffer_append(buffer, text, strlen(text));
}

void rs_buffer_printf(rs_buffer *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0 || !reserve_bytes(buffer, (size_t)length)) {
        buffer->failed = true;
        return;
    }
    va_start(arguments, format);
    vsnprintf(buffer->data + buffer->length, (size_t)length + 1, format, arguments);
    va_end(arguments);
    buffer->length += (size_t)length;
}

/* ---- string map: open addressing, linear probing, at most half full ---- */

struct rs_strmap_slot {
    const char *key; /* NULL: free */
    size_t length;
    uint64_t hash;
    int64_t value;
};

/* FNV-1a over the bytes, then the finaliser of MurmurHash3 so that the low bits are usable. */
static uint64_t hash_of(const char *key, size_t length)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++)
        h = (h ^ (unsigned char)key[i]) * 0x100000001b3u;
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdu;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53u;
    return h ^ (h >> 33);
}

static struct rs_strmap_slot *slot_for(const rs_strmap *map, const char *key, size_t length,
                                       uint64_t hash)
{
    size_t mask = map->capacity - 1;
    for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
        struct rs_strmap_slot *slot = &map->slots[i];
        if (!slot->key) return slot;
        if (slot->hash == hash && slot->length == length && memcmp(slot->key, key, length) == 0)
            return slot;
    }
}

static bool rehash(rs_strmap *map, size_t capacity)
{
    rs_strmap bigger = {.capacity = capacity, .count = map->count};
    bigger.slots = rs_calloc(capacity, sizeof *bigger.slots);
    if (!bigger.slots) return false;
    for (size_t i = 0; i < map->capacity; i++) {
        const struct rs_strmap_slot *old = &map->slots[i];
        if (old->key) *slot_for(&bigger, old->key, old->length, old->hash) = *old;
    }
    rs_free(map->slots);
    *map = bigger;
    return true;
}

bool rs_strmap_insert(rs_strmap *map, const char *key, size_t length, int64_t value, bool *existed)
{
    if (map->count >= map->capacity / 2) {
        size_t capacity = 16;
        if (map->capacity && !rs_size_mul(map->capacity, 2, &capacity)) return false;
        if (!rehash(map, capacity)) return false;
    }
    uint64_t hash = hash_of(key, length);
    struct rs_strmap_slot *slot = slot_for(map, key, length, hash);
    *existed = slot->key != NULL;
    if (!*existed) {
        *slot = (struct rs_strmap_slot){.key = key, .length = length, .hash = hash, .value = value};
        map->count++;
    }
    return true;
}

int64_t rs_strmap_get(const rs_strmap *map, const char *key, size_t length, int64_t absent)
{
    if (!map->capacity) return absent;
    const struct rs_strmap_slot *slot = slot_for(map, key, length, hash_of(key, length));
    return slot->key ? slot->value : absent;
}

void rs_strmap_free(rs_strmap *map)
{
    rs_free(map->slots);
    *map = (rs_strmap){0};
}

/* ---- UTF-8 ---- */

bool rs_text_same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

bool rs_utf8_valid(const char *bytes, size_t length)
{
    const unsigned char *s = (const unsigned char *)bytes;
    for (size_t i = 0; i < length;) {
        unsigned char c = s[i];
        size_t more;
        uint32_t point, least;
        if (c < 0x80) {
            i++;
            continue;
        } else if (c >= 0xC2 && c <= 0xDF) {
            more = 1, point = c & 0x1Fu, least = 0x80;
        } else if (c >= 0xE0 && c <= 0xEF) {
            more = 2, point = c & 0x0Fu, least = 0x800;
        } else if (c >= 0xF0 && c <= 0xF4) {
            more = 3, point = c & 0x07u, least = 0x10000;
        } else {
            return false;
        }
        if (length - i <= more) return false;
        for (size_t j = 1; j <= more; j++) {
            if ((s[i + j] & 0xC0) != 0x80) return false;
            point = point << 6 | (s[i + j] & 0x3Fu);
        }
        if (point < least || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF)) return false;
        i += more + 1;
    }
    return true;
}

size_t rs_utf8_next(const char *bytes, size_t length, uint32_t *point)
{
    unsigned char c = (unsigned char)bytes[0];
    if (c < 0x80) {
        *point = c;
        return 1;
    }
    size_t size = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
    if (c < 0xC2 || size > length || !rs_utf8_valid(bytes, size)) {
        *point = RS_REPLACEMENT;
        return 1;
    }
    uint32_t value = c & (0x7Fu >> size);
    for (size_t i = 1; i < size; i++)
        value = value << 6 | ((unsigned char)bytes[i] & 0x3Fu);
    *point = value;
    return size;
}

size_t rs_utf8_put(char out[4], uint32_t point)
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    size_t size = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = size - 1; i > 0; i--, point >>= 6)
        out[i] = (char)(0x80 | (point & 0x3F));
    out[0] = (char)(lead[size] | point);
    return size;
}

/* ---- what is safe to print ---- */

bool rs_point_is_dangerous(uint32_t point)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0x0000, 0x001F}, {0x007F, 0x009F}, {0x00AD, 0x00AD}, {0x061C, 0x061C}, {0x200B, 0x200F},
        {0x2028, 0x202E}, {0x2060, 0x206F}, {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (point >= ranges[i].first && point <= ranges[i].last) return true;
    return false;
}

void rs_text_clean(char *text)
{
    char *to = text;
    for (size_t length = strlen(text); length > 0;) {
        uint32_t point;
        size_t size = rs_utf8_next(text, length, &point);
        bool broken = size == 1 && (unsigned char)*text >= 0x80;
        if (broken || rs_point_is_dangerous(point)) {
            *to++ = '?';
        } else {
            memmove(to, text, size);
            to += size;
        }
        text += size;
        length -= size;
    }
    *to = 0;
}

/* ---- edit distance ---- */

int rs_edit_distance(const char *a, const char *b)
{
    if (!a || !b) return 0;
    enum { LONGEST = 64 };
    int row[LONGEST + 1];
    size_t na = strnlen(a, LONGEST), nb = strnlen(b, LONGEST);
    for (size_t j = 0; j <= nb; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int replace = diagonal + (a[i - 1] != b[j - 1]);
            int least = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            diagonal = row[j];
            row[j] = replace < least ? replace : least;
        }
    }
    return row[nb];
}

const char *rs_nearest_name(const char *name, const char *const *known)
{
    const char *nearest = known[0];
    for (size_t i = 1; known[i]; i++)
        if (rs_edit_distance(name, known[i]) < rs_edit_distance(name, nearest)) nearest = known[i];
    return nearest;
}
