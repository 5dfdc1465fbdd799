/* The UDP loop of the nameserver without the interpreter: ordinary queries are answered from an index over the bytes that
 * the zone has compiled. All others go to Python's `answer`, which is the reference: what is answered here has the same
 * bytes and the same counts.
 *
 * Who owns what: an Index never changes after it was made, and holds the dicts whose bytes it points to. References are
 * counted under the interpreter's lock (GIL) only. The lock is released while packets are received, answered and sent.
 */
#ifndef UDPLOOP_H
#define UDPLOOP_H

#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { MAX_NAME = 255, MAX_LABELS = 127, UDP_MINIMUM = 512, UDP_MAXIMUM = 1232 };
/* What is counted: queries by type, of names that exist, that don't, and that are in no zone. */
enum { TYPES = 10, MISS = TYPES, REFUSAL = 2 * TYPES, COUNTS = 3 * TYPES };
enum { BUCKETS = 256, LINE = 64 };
enum { A_SIZE = 16, AAAA_SIZE = 28 };  /* of a compiled record */

/* Compiled records of one type. */
typedef struct {
    const uint8_t *start;
    uint16_t size;  /* 0: there are none */
} Records;

/* A name and its records in one piece: nearly always one line of the cache, and so one miss. */
typedef struct {
    uint32_t apex;
    uint16_t a_size, aaaa_size;  /* of the records */
    uint8_t size;                /* of the name */
    uint8_t bytes[];             /* the name; then the records, A before AAAA, but none that are too long for UDP */
} Entry;

typedef struct {
    Records nodata, nxdomain;
} Apex;

typedef struct {
    uint32_t hash;   /* its upper half, so that hardly any entry is looked at in vain */
    uint32_t entry;  /* where in its bucket; 0 ends a search */
} Slot;

/* The names of one of the zone's dicts: slots by hash, and then the entries. Zones that share the dict share the bucket. */
typedef struct {
    PyObject *dict;
    size_t users;
    int labels;  /* no name has more */
    uint32_t mask;
    Slot slots[];
} Bucket;

typedef struct {
    PyObject_HEAD
    PyObject *apexes;  /* as given: a tuple of (origin, body of NODATA, body of NXDOMAIN) */
    Apex *apex;
    int labels;        /* no name has more; 0: there are no names yet, and Python answers */
    Bucket *buckets[BUCKETS];
} Index;

/* A name as it was asked: lower-cased, where each of its labels starts, and its hash. */
typedef struct {
    uint8_t bytes[MAX_NAME];
    uint8_t starts[MAX_LABELS];
    int labels;  /* 0: it isn't well-formed, or is the root's, and the rest says nothing */
    size_t size;
    Py_hash_t hash;
} Name;

extern PyTypeObject IndexType;

/* Return the hash of a lower-cased name. */
Py_hash_t index_hash(const uint8_t *name, size_t size);

/* Begin to bring what `index_find` reads into the cache: first the slot of a hash; once it is there, the entry. */
void index_fetch_slot(const Index *index, Py_hash_t hash);
void index_fetch_entry(const Index *index, Py_hash_t hash);

/* Return what is known of a lower-cased name, or NULL. */
const Entry *index_find(const Index *index, const uint8_t *name, size_t size, Py_hash_t hash);

/* Return the A records of an entry, or its AAAA records. */
Records entry_records(const Entry *entry, bool aaaa);

/* Read the name that follows the header of a query. */
void read_name(Name *name, const uint8_t *query, size_t size);

/* Write the response to an ordinary query, whose name has been read, into `response` (of UDP_MAXIMUM bytes; it may be where the query is) and where
 * it counts into `slot`; returns its size, or 0: the query is left to Python, as it was. */
size_t respond(
    const Index *index, const Name *name, const uint8_t *query, size_t size, uint8_t *response, int *slot);

#endif
