/* Answers ordinary queries, with the same bytes as answer.py. */
#include "udploop.h"

enum { HEADER = 12, MAX_LABEL = 63, TYPE_AND_CLASS = 4, OPT_SIZE = 11, NO_TYPE = -1 };
enum { RD = 0x01, AA = 0x04, QR = 0x80, CD = 0x10, AD = 0x20, IN = 1, OPT = 41, NSID = 3, NXDOMAIN = 3, REFUSED = 5 };

static unsigned number_at(const uint8_t *bytes)
{
    return (unsigned)bytes[0] << 8 | bytes[1];
}

static void put_number(uint8_t *bytes, unsigned number)
{
    bytes[0] = (uint8_t)(number >> 8);
    bytes[1] = (uint8_t)number;
}

/* Return the slot in which a type is counted: its position in FAST_TYPES of message.py. */
static int slot_of(unsigned type)
{
    switch (type) {
    case 1: return 0;   /* A */
    case 28: return 1;  /* AAAA */
    case 5: return 2;   /* CNAME */
    case 12: return 3;  /* PTR */
    case 15: return 4;  /* MX */
    case 16: return 5;  /* TXT */
    case 33: return 6;  /* SRV */
    case 35: return 7;  /* NAPTR */
    case 64: return 8;  /* SVCB */
    case 65: return 9;  /* HTTPS */
    default: return NO_TYPE;
    }
}

void read_name(Name *name, const uint8_t *query, size_t size)
{
    size_t at = HEADER;
    int labels = 0;
    name->labels = 0;
    while (at < size && query[at]) {
        size_t start = at - HEADER;
        if (query[at] > MAX_LABEL || start + query[at] + 2 > MAX_NAME)
            return;
        name->starts[labels++] = (uint8_t)start;
        at += query[at] + 1u;
    }
    if (at >= size)
        return;
    name->labels = labels;
    name->size = at + 1 - HEADER;
    for (size_t each = 0; each < name->size; each++) {
        uint8_t byte = query[HEADER + each];
        name->bytes[each] = byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte;  /* a label's length is below 'A' */
    }
    name->hash = index_hash(name->bytes, name->size);
}

/* Tell whether the rest of a query is an OPT record of version 0 that asks for nothing. */
static bool is_ordinary_opt(const uint8_t *opt, size_t size)
{
    if (size < OPT_SIZE || opt[0] || number_at(opt + 1) != OPT)
        return false;
    if (opt[5] || opt[6] || opt[7] & 0x7F || opt[8] || number_at(opt + 9) != size - OPT_SIZE)
        return false;
    size_t at = OPT_SIZE;
    while (at < size) {
        if (size - at < 4 || number_at(opt + at) == NSID || number_at(opt + at + 2) > size - at - 4)
            return false;
        at += 4 + number_at(opt + at + 2);
    }
    return true;
}

/* Return the entry of the closest existing name above `name`; NULL if `name` is in no zone. */
static const Entry *find_above(const Index *index, const Name *name)
{
    int first = name->labels - index->labels;
    for (int label = first > 1 ? first : 1; label < name->labels; label++) {
        size_t start = name->starts[label];
        const uint8_t *above = name->bytes + start;
        size_t size = name->size - start;
        const Entry *entry = index_find(index, above, size, index_hash(above, size));
        if (entry)
            return entry;
    }
    return NULL;
}

static size_t offered_size(const uint8_t *opt)
{
    unsigned size = number_at(opt + 3);
    return size < UDP_MINIMUM ? UDP_MINIMUM : size > UDP_MAXIMUM ? UDP_MAXIMUM : size;
}

size_t respond(
    const Index *index, const Name *name, const uint8_t *query, size_t size, uint8_t *response, int *slot)
{
    static const uint8_t one_question[7] = {0, 1, 0, 0, 0, 0, 0};
    if (!index->labels || !name->labels || size - HEADER - name->size < TYPE_AND_CLASS)
        return 0;
    if (query[2] & ~RD || query[3] & ~(AD | CD) || memcmp(query + 4, one_question, 7) || query[11] > 1)
        return 0;
    bool has_opt = query[11];
    const uint8_t *type = query + HEADER + name->size;
    const uint8_t *opt = type + TYPE_AND_CLASS;
    size_t left = size - (size_t)(opt - query);
    *slot = slot_of(number_at(type));
    if (*slot == NO_TYPE || number_at(type + 2) != IN)
        return 0;
    if (has_opt ? !is_ordinary_opt(opt, left) : left != 0)
        return 0;

    Records found = {NULL, 0};
    unsigned answers = 0, authority = 0, rcode = 0;
    const Entry *entry = index_find(index, name->bytes, name->size, name->hash);
    if (entry) {
        if (*slot <= 1)
            found = entry_records(entry, *slot == 1);
        answers = found.size / (*slot == 1 ? (unsigned)AAAA_SIZE : A_SIZE);
        if (!answers) {
            found = index->apex[entry->apex].nodata;
            authority = 1;
        }
    } else if ((entry = find_above(index, name))) {
        found = index->apex[entry->apex].nxdomain;
        authority = 1;
        rcode = NXDOMAIN;
        *slot += MISS;
    } else {
        rcode = REFUSED;
        *slot += REFUSAL;
    }

    size_t question = name->size + TYPE_AND_CLASS;
    size_t total = HEADER + question + found.size + (has_opt ? OPT_SIZE : 0);
    if (total > (has_opt ? offered_size(opt) : UDP_MINIMUM))
        return 0;
    uint8_t flags = has_opt ? opt[7] : 0;
    if (response != query)
        memcpy(response, query, HEADER + question);
    response[2] = (uint8_t)(QR | (rcode == REFUSED ? 0 : AA) | (query[2] & RD));
    response[3] = (uint8_t)((query[3] & CD) | rcode);
    put_number(response + 6, answers);
    put_number(response + 8, authority);
    if (found.size)
        memcpy(response + HEADER + question, found.start, found.size);
    if (has_opt) {
        uint8_t said[OPT_SIZE] = {0, 0, OPT, UDP_MAXIMUM >> 8, UDP_MAXIMUM & 0xFF, 0, 0, flags, 0, 0, 0};
        memcpy(response + total - OPT_SIZE, said, OPT_SIZE);
    }
    return total;
}
