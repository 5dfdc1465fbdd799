/* The UDP loop of the nameserver, which works without the interpreter. It answers ordinary queries from an index of the
 * zone's compiled records. All others go to Python's `answer`, which is the reference: for each query, this code gives
 * the same bytes and counts as `answer`.
 *
 * Ownership: an Index never changes after it was made, and has references to the dicts whose names it has. References are
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
/* The parts of the counts. Each counts queries by type: of existing names, of missing names, and of names in no zone. */
enum { TYPES = 10, MISS = TYPES, REFUSAL = 2 * TYPES, COUNTS = 3 * TYPES };
enum { BUCKETS = 256, LINE = 64 };
enum { A_SIZE = 16, AAAA_SIZE = 28 };  /* the sizes of compiled records */

/* Compiled records of one type. */
typedef struct {
    const uint8_t *start;
    uint16_t size;  /* 0 if there are none */
} Records;

/* A name and its records in one piece of memory. It is nearly always in one cache line, so a lookup has one cache miss. */
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
    uint32_t hash;   /* the upper half of the hash, so that few entries are read in vain */
    uint32_t entry;  /* the offset of the entry in the bucket; 0 if the slot is free, which ends a search */
} Slot;

/* The names of one of the zone's dicts: slots by hash, and then the entries. Zones that share the dict share the bucket. */
typedef struct {
    PyObject *dict;
    size_t users;
    int labels;  /* the most labels of any name */
    uint32_t mask;
    Slot slots[];
} Bucket;

typedef struct {
    PyObject_HEAD
    PyObject *apexes;  /* as given: a tuple of (origin, body of NODATA, body of NXDOMAIN) */
    Apex *apex;
    int labels;        /* the most labels of any name; 0 if there are no names yet, and Python answers */
    Bucket *buckets[BUCKETS];
} Index;

/* The name in a query: lower-cased, with the start of each label, and its hash. */
typedef struct {
    uint8_t bytes[MAX_NAME];
    uint8_t starts[MAX_LABELS];
    int labels;  /* 0 if the name isn't well-formed or is the root; then the other fields are unset */
    size_t size;
    Py_hash_t hash;
} Name;

extern PyTypeObject IndexType;

/* Return the hash of a lower-cased name. */
Py_hash_t index_hash(const uint8_t *name, size_t size);

/* Prefetch the memory that `index_find` reads: first the slot of a hash, and in a second call the entry. */
void index_fetch_slot(const Index *index, Py_hash_t hash);
void index_fetch_entry(const Index *index, Py_hash_t hash);

/* Return the entry of a lower-cased name; NULL if it has none. */
const Entry *index_find(const Index *index, const uint8_t *name, size_t size, Py_hash_t hash);

/* Return the A records of an entry, or its AAAA records. */
Records entry_records(const Entry *entry, bool aaaa);

/* Read the name that follows the header of a query. */
void read_name(Name *name, const uint8_t *query, size_t size);

/* Answer an ordinary query whose name has been read. Write the response into `response` (UDP_MAXIMUM bytes, which can
 * overlap the query), and into `slot` the index of the count that grows by one. Return the size of the response, or
 * return 0 and leave the query unchanged if Python has to answer it. */
size_t respond(
    const Index *index, const Name *name, const uint8_t *query, size_t size, uint8_t *response, int *slot);

#endif
