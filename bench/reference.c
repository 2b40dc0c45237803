/* The loops that one would write by hand in C for the works W1 to W4 of bench/c.py.
 *
 * Nothing general: a function per work, all state in flat arrays, one stream of random numbers
 * (xoshiro256++ in registers; Blackman and Vigna 2021), exponentials and normals by ziggurat
 * (Marsaglia and Tsang 2000, 256 layers). What is summed up is what a study of the work must at
 * least know: the integral of the number of tasks and of its square, of how many servers have at
 * least i tasks, and of every task its wait and its response.
 *
 * With `full` they also keep what the kernels of the package keep of every run: the imbalance, and
 * histograms of waits and responses. Where a loop without them is meant, they cost nothing.
 *
 * Compiled with -O3 -march=native and called by ctypes: see bench/c.py, which also holds the
 * results against theory. Each function returns 0, or 1 if memory or a table is too small.
 */

#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define LEVELS 256 /* longest queue or fullest pool that is kept apart; longer is an error */
#define BUCKETS 4097 /* 64 an octave from 2^-30 to 2^34, and one for 0 */
#define KEEP __attribute__((always_inline)) static inline
#define RARE __attribute__((noinline)) static

typedef struct {
    double time, tasks, squares; /* the integrals of 1, of the tasks, of their square */
    double waits, responses;     /* summed over `waited` and `responded` tasks */
    int64_t events, waited, responded;
    double least[LEVELS]; /* integral of the servers with at least i tasks */
    double seconds;       /* of CPU time that the loop took, without what comes before */
    int64_t timed;        /* events in that time */
    double uneven;        /* integral of the tasks that are out of balance, if `full` */
    int64_t wait[BUCKETS], response[BUCKETS]; /* tasks by wait and by response, if `full` */
} Sums;

typedef struct {
    int64_t n;            /* servers, each of speed 1 */
    double load;          /* tasks that arrive in the mean time of service, for each server */
    double scv;           /* squared coefficient of variation of lognormal service */
    int64_t before;       /* tasks that arrive before the clock and all sums start, */
    int64_t tasks;        /* and in all: the loop stops at this arrival */
    const int32_t *start; /* int32[n], tasks at each server at time 0 */
    uint64_t seed[4];
} Work;

/* -- random numbers --------------------------------------------------------------------------- */

typedef struct {
    uint64_t a, b, c, d;
} Rng;

KEEP Rng seeded(const uint64_t *seed) { return (Rng){seed[0], seed[1], seed[2], seed[3]}; }

KEEP uint64_t rotated(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

KEEP uint64_t word(Rng *r)
{
    const uint64_t out = rotated(r->a + r->d, 23) + r->a, moved = r->b << 17;
    r->c ^= r->a;
    r->d ^= r->b;
    r->b ^= r->c;
    r->a ^= r->d;
    r->c ^= moved;
    r->d = rotated(r->d, 45);
    return out;
}

KEEP double uniform(Rng *r) { return (double)(int64_t)(word(r) >> 11) * 0x1p-53; }

KEEP int64_t below(Rng *r, int64_t n)
{
    return (int64_t)(((unsigned __int128)word(r) * (unsigned __int128)n) >> 64);
}

/* Layers of equal area under a falling density f with f(0) = 1: width per 52-bit unit, bound below
 * which a draw lies inside for sure, height. Layer 0 is the base with the tail. */
typedef struct {
    double width[256], height[257], right;
    uint64_t sure[256];
} Layers;

static Layers exp_layers, normal_layers;
static int layered = 0;

static double fall_exp(double x) { return exp(-x); }
static double rise_exp(double y) { return -log(y); }
static double fall_normal(double x) { return exp(-0.5 * x * x); }
static double rise_normal(double y) { return sqrt(-2.0 * log(y)); }

static void stack(Layers *z, double right, double area, double (*f)(double), double (*g)(double))
{
    double x[257];
    x[0] = area / f(right);
    x[1] = right;
    for (int i = 1; i < 255; i++)
        x[i + 1] = g(area / x[i] + f(x[i]));
    x[256] = 0.0;
    for (int i = 0; i < 256; i++) {
        z->width[i] = x[i] * 0x1p-52;
        z->sure[i] = (uint64_t)(x[i + 1] / x[i] * 0x1p52);
    }
    for (int i = 0; i <= 256; i++)
        z->height[i] = f(x[i]);
    z->right = right;
}

static void make_layers(void)
{
    if (layered)
        return;
    stack(&exp_layers, 7.69711747013104972, 0.0039496598225815571993, fall_exp, rise_exp);
    stack(&normal_layers, 3.6541528853610088, 0.00492867323399, fall_normal, rise_normal);
    layered = 1;
}

/* The rare ways take and return the state by value: were its address to escape, the hot loop would
 * keep it in memory. */
typedef struct {
    Rng rng;
    double value;
} Drawn;

RARE Drawn exponential_slowly(Rng r, uint64_t w)
{
    const Layers *z = &exp_layers;
    for (;;) {
        const int layer = (int)(w & 255);
        const uint64_t bits = w >> 12;
        const double x = (double)(int64_t)bits * z->width[layer];
        if (bits < z->sure[layer])
            return (Drawn){r, x};
        if (layer == 0) {
            const double tail = z->right - log(1.0 - uniform(&r));
            return (Drawn){r, tail};
        }
        const double low = z->height[layer], high = z->height[layer + 1];
        if (low + uniform(&r) * (high - low) < exp(-x))
            return (Drawn){r, x};
        w = word(&r);
    }
}

KEEP double exponential(Rng *r)
{
    const uint64_t w = word(r), bits = w >> 12;
    const int layer = (int)(w & 255);
    if (__builtin_expect(bits < exp_layers.sure[layer], 1))
        return (double)(int64_t)bits * exp_layers.width[layer];
    const Drawn got = exponential_slowly(*r, w);
    *r = got.rng;
    return got.value;
}

RARE Drawn normal_slowly(Rng r, uint64_t w)
{
    const Layers *z = &normal_layers;
    for (;;) {
        const int layer = (int)(w & 255);
        const uint64_t bits = w >> 12;
        const double sign = w & 256 ? -1.0 : 1.0, x = (double)(int64_t)bits * z->width[layer];
        if (bits < z->sure[layer])
            return (Drawn){r, sign * x};
        if (layer == 0) {
            double a, b;
            do {
                a = -log(1.0 - uniform(&r)) / z->right;
                b = -log(1.0 - uniform(&r));
            } while (b + b < a * a);
            return (Drawn){r, sign * (z->right + a)};
        }
        const double low = z->height[layer], high = z->height[layer + 1];
        if (low + uniform(&r) * (high - low) < exp(-0.5 * x * x))
            return (Drawn){r, sign * x};
        w = word(&r);
    }
}

KEEP double normal(Rng *r)
{
    const uint64_t w = word(r), bits = w >> 12;
    const int layer = (int)(w & 255);
    if (__builtin_expect(bits < normal_layers.sure[layer], 1)) {
        const double x = (double)(int64_t)bits * normal_layers.width[layer];
        return w & 256 ? -x : x;
    }
    const Drawn got = normal_slowly(*r, w);
    *r = got.rng;
    return got.value;
}

/* -- what is kept of a run -------------------------------------------------------------------- */

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Memory in large pages where the system has them to give: numpy asks for the same. */
static void *room_for(size_t bytes)
{
    const size_t page = (size_t)2 << 20;
    if (bytes < 2 * page)
        return malloc(bytes);
    void *got = aligned_alloc(page, (bytes + page - 1) / page * page);
#ifdef MADV_HUGEPAGE
    if (got)
        madvise(got, bytes, MADV_HUGEPAGE);
#endif
    return got;
}

KEEP int bucket(double time)
{
    int64_t bits;
    if (time <= 0.0)
        return 0;
    memcpy(&bits, &time, sizeof bits);
    const int64_t at = (bits >> 46) - (1023 - 30) * 64 + 1;
    return (int)(at < 1 ? 1 : at > BUCKETS - 1 ? BUCKETS - 1 : at);
}

/* Half of the sum over i of |servers with at least i tasks - the same in balance|: with K tasks at
 * each server and some one more, the tasks beyond level K + 1 and those at K + 1 in excess. */
typedef struct {
    int64_t n, k, total, above, excess, least[LEVELS + 2];
} Balance;

static void find_balance(Balance *b, int64_t n, const int32_t *start)
{
    memset(b, 0, sizeof *b);
    b->n = n;
    for (int64_t s = 0; s < n; s++)
        for (int i = 1; i <= start[s]; i++, b->total++)
            b->least[i]++;
    b->k = b->total / n;
    for (int i = (int)b->k + 2; i < LEVELS; i++)
        b->above += b->least[i];
    b->excess = b->least[b->k + 1] - (b->total - n * b->k);
}

KEEP double unevenness(const Balance *b)
{
    return (double)(b->above + (b->excess > 0 ? b->excess : 0));
}

KEEP void balance_risen(Balance *b, int64_t length)
{
    b->least[length]++;
    b->above += length >= b->k + 2;
    b->excess -= length != b->k + 1;
    if (++b->total >= b->n * (b->k + 1)) {
        b->k++;
        b->above -= b->least[b->k + 1];
        b->excess = b->least[b->k + 1] - (b->total - b->n * b->k);
    }
}

KEEP void balance_fallen(Balance *b, int64_t length)
{
    b->least[length]--;
    b->above -= length >= b->k + 2;
    b->excess += length != b->k + 1;
    if (--b->total < b->n * b->k) {
        b->above += b->least[b->k + 1];
        b->k--;
        b->excess = b->least[b->k + 1] - (b->total - b->n * b->k);
    }
}

/* -- W1 and W4: pools, join the shortest ------------------------------------------------------ */

/* All servers in one array sorted by level, a level's end beside it: end[i] is how many servers
 * have at most i tasks. Raising a server swaps it with the last of its level. */
typedef struct {
    int32_t position, level;
} Place;

typedef struct {
    int32_t *order, *position, *level; /* separate arrays, or */
    Place *place;                      /* position and level packed */
    int64_t end[LEVELS + 1];
    int64_t low; /* the lowest level that is not empty */
} Index;

KEEP int32_t raised(Index *x, int packed, int64_t here)
{
    const int64_t level = x->low, last = x->end[level] - 1;
    const int32_t server = x->order[here], other = x->order[last];
    x->order[here] = other;
    x->order[last] = server;
    if (packed) {
        x->place[other].position = (int32_t)here;
        x->place[server] = (Place){(int32_t)last, (int32_t)level + 1};
    } else {
        x->position[other] = (int32_t)here;
        x->position[server] = (int32_t)last;
        x->level[server] = (int32_t)level + 1;
    }
    x->end[level] = last;
    if (last == 0)
        x->low = level + 1;
    return server;
}

KEEP void lower(Index *x, int packed, int64_t here, int64_t level)
{
    const int64_t first = x->end[level - 1];
    const int32_t server = x->order[here], other = x->order[first];
    x->order[here] = other;
    x->order[first] = server;
    if (packed) {
        x->place[other].position = (int32_t)here;
        x->place[server] = (Place){(int32_t)first, (int32_t)level - 1};
    } else {
        x->position[other] = (int32_t)here;
        x->position[server] = (int32_t)first;
        x->level[server] = (int32_t)level - 1;
    }
    x->end[level - 1] = first + 1;
    if (x->low >= level)
        x->low = level - 1;
}

/* `packed`: position and level of a server side by side. `known`: a departing server is drawn
 * through the index, a level in proportion to its tasks and a server of it, so that its position
 * and level are known and need not be read; else from a list with an entry for every task. */
KEEP int pools(int packed, int known, int full, const Work *w, Sums *sums)
{
    const int64_t n = w->n, tasks = w->tasks;
    const int32_t *start = w->start;
    Rng r = seeded(w->seed);
    Index x = {0};
    const double rate = w->load * (double)n;
    int64_t total = 0, finished = 0, room = 0;
    int32_t *slot = NULL;
    int code = 1;
    make_layers();
    memset(sums, 0, sizeof *sums);
    for (int64_t s = 0; s < n; s++) {
        if (start[s] >= LEVELS - 2)
            return 1;
        total += start[s];
        x.end[start[s]]++;
    }
    for (int i = 1; i <= LEVELS; i++)
        x.end[i] += x.end[i - 1];
    while (x.end[x.low] == 0)
        x.low++;
    x.order = room_for(4 * (size_t)n);
    if (packed)
        x.place = room_for(8 * (size_t)n);
    else {
        x.position = room_for(4 * (size_t)n);
        x.level = room_for(4 * (size_t)n);
    }
    if (!known) {
        room = 2 * total + 1024;
        slot = room_for(4 * (size_t)room);
    }
    if (!x.order || (packed ? !x.place : !x.position || !x.level) || (!known && !slot))
        goto out;
    int64_t next[LEVELS + 1] = {0}, filled = 0;
    memcpy(next + 1, x.end, sizeof x.end - sizeof x.end[0]);
    for (int64_t s = 0; s < n; s++) {
        const int64_t here = next[start[s]]++;
        x.order[here] = (int32_t)s;
        if (packed)
            x.place[s] = (Place){(int32_t)here, start[s]};
        else {
            x.position[s] = (int32_t)here;
            x.level[s] = start[s];
        }
        for (int k = 0; !known && k < start[s]; k++)
            slot[filled++] = (int32_t)s;
    }
    int64_t arrived = 0;
    double now = 0.0, area = 0.0, squares = 0.0, uneven = 0.0, since = 0.0;
    double *least = sums->least;
    Balance balance;
    find_balance(&balance, n, start);
    double began = 0.0;
    int64_t goal = w->before, passed = 0;
again:
    /* least[i] needs an addition an event: now - x for each rise at a time x, x - now at a fall */
    while (arrived < goal) {
        const double all = rate + (double)total, step = exponential(&r) / all;
        now += step;
        area += step * (double)total;
        squares += step * (double)total * (double)total;
        if (full)
            uneven += step * unevenness(&balance);
        const double drawn = uniform(&r) * all;
        if (drawn < rate) {
            const int64_t level = x.low;
            if (level >= LEVELS - 2 || (!known && total == room))
                goto out;
            const int32_t server = raised(&x, packed, below(&r, x.end[level]));
            if (!known)
                slot[total] = server;
            least[level + 1] -= now;
            if (full)
                balance_risen(&balance, level + 1);
            total++;
            arrived++;
        } else {
            double rest = drawn - rate;
            int64_t here, level;
            if (known) {
                level = x.low;
                int64_t below_it = 0, count = x.end[level];
                while (rest >= (double)(level * count) && below_it + count < n) {
                    rest -= (double)(level * count);
                    below_it += count;
                    level++;
                    count = x.end[level] - below_it;
                }
                int64_t among = (int64_t)(rest / (double)level);
                here = below_it + (among < count ? among : count - 1);
            } else {
                int64_t which = (int64_t)rest;
                which = which < total ? which : total - 1;
                const int32_t server = slot[which];
                slot[which] = slot[total - 1];
                here = packed ? x.place[server].position : x.position[server];
                level = packed ? x.place[server].level : x.level[server];
            }
            lower(&x, packed, here, level);
            least[level] += now;
            if (full)
                balance_fallen(&balance, level);
            total--;
            finished++;
        }
    }
    if (goal != tasks) { /* the clock starts here, and all sums */
        goal = tasks;
        passed = arrived + finished;
        since = now;
        area = squares = uneven = 0.0;
        for (int i = 1; i < LEVELS; i++)
            least[i] = -(double)(n - x.end[i - 1]) * now;
        began = cpu_seconds();
        goto again;
    }
    sums->seconds = cpu_seconds() - began;
    sums->timed = arrived + finished - passed;
    sums->uneven = uneven;
    for (int i = 1; i < LEVELS; i++) /* those still there have had it since their rise */
        least[i] += (double)(n - x.end[i - 1]) * now;
    sums->time = now - since;
    sums->tasks = area;
    sums->squares = squares;
    sums->events = arrived + finished;
    code = 0;
out:
    free(x.order);
    free(x.place);
    free(x.position);
    free(x.level);
    free(slot);
    return code;
}

#define POOLS(name, packed, known, full)                                                           \
    int name(const Work *w, Sums *sums) { return pools(packed, known, full, w, sums); }
POOLS(pools_separate_list, 0, 0, 0)
POOLS(pools_separate_list_full, 0, 0, 1)
POOLS(pools_separate_index, 0, 1, 0)
POOLS(pools_separate_index_full, 0, 1, 1)
POOLS(pools_packed_list, 1, 0, 0)
POOLS(pools_packed_list_full, 1, 0, 1)
POOLS(pools_packed_index, 1, 1, 0)
POOLS(pools_packed_index_full, 1, 1, 1)

/* -- W2 and W3: first come, first served, the shorter of two ---------------------------------- */

/* Tasks that wait stand in a list per server; a node is a task's time of arrival and who is next. */
typedef struct {
    double since;
    int32_t next;
} Node;

typedef struct {
    Node *node;
    int32_t *head, *tail, *length;
    int64_t room;
    int32_t free;
} Queues;

/* A task of the start has no time of arrival that is known: its wait is not counted. */
#define BEFORE (-1.0)

KEEP int enqueue(Queues *q, int64_t server, int32_t length, double now)
{
    if (q->free < 0)
        return 1;
    const int32_t node = q->free;
    q->free = q->node[node].next;
    q->node[node] = (Node){now, -1};
    if (length == 2)
        q->head[server] = node;
    else
        q->node[q->tail[server]].next = node;
    q->tail[server] = node;
    return 0;
}

KEEP double dequeue(Queues *q, int64_t server)
{
    const int32_t node = q->head[server];
    const double since = q->node[node].since;
    q->head[server] = q->node[node].next;
    q->node[node].next = q->free;
    q->free = node;
    return since;
}

static int make_queues(Queues *q, int64_t n, const int32_t *start, int64_t *total)
{
    *total = 0;
    for (int64_t s = 0; s < n; s++) {
        if (start[s] >= LEVELS - 2)
            return 1;
        *total += start[s];
    }
    q->room = 64 * n + 2 * *total + 1024;
    q->node = malloc(sizeof(Node) * (size_t)q->room);
    q->head = malloc(4 * (size_t)n);
    q->tail = malloc(4 * (size_t)n);
    q->length = malloc(4 * (size_t)(n + 1));
    if (!q->node || !q->head || !q->tail || !q->length)
        return 1;
    for (int64_t i = 0; i < q->room; i++)
        q->node[i].next = i + 1 < q->room ? (int32_t)(i + 1) : -1;
    q->free = 0;
    q->length[n] = INT32_MAX; /* who asks a second server of one finds this one */
    for (int64_t s = 0; s < n; s++) {
        q->length[s] = start[s];
        for (int32_t k = 2; k <= start[s]; k++)
            if (enqueue(q, s, k, BEFORE))
                return 1;
    }
    return 0;
}

static void free_queues(Queues *q)
{
    free(q->node);
    free(q->head);
    free(q->tail);
    free(q->length);
}

KEEP int64_t shorter_of_two(Rng *r, const int32_t *length, int64_t n)
{
    const int64_t one = below(r, n);
    int64_t two = below(r, n - (n > 1));
    two += two >= one;
    return length[two] < length[one] ? two : one;
}

static void close_sums(Sums *sums, const int32_t *length, int64_t n, double now)
{
    for (int64_t s = 0; s < n; s++)
        for (int32_t i = 1; i <= length[s]; i++)
            sums->least[i] += now;
}

static void begin_sums(Sums *sums, const int32_t *length, int64_t n, double now)
{
    memset(sums, 0, sizeof *sums);
    close_sums(sums, length, n, -now);
}

/* W2: exponential service; who is in service stands in a list, so that the next to finish is a
 * random entry of it. */
KEEP int exponential_queues(int full, const Work *w, Sums *sums)
{
    const int64_t n = w->n, tasks = w->tasks;
    const int32_t *start = w->start;
    Rng r = seeded(w->seed);
    Queues q = {0};
    const double rate = w->load * (double)n;
    typedef struct {
        double since;
        int32_t server;
    } Slot;
    Slot *slot = NULL;
    int64_t total, busy = 0, arrived = 0, finished = 0, responded = 0, waited = 0;
    int code = 1;
    make_layers();
    memset(sums, 0, sizeof *sums);
    if (make_queues(&q, n, start, &total))
        goto out;
    slot = malloc(sizeof(Slot) * (size_t)n);
    if (!slot)
        goto out;
    for (int64_t s = 0; s < n; s++)
        if (start[s])
            slot[busy++] = (Slot){BEFORE, (int32_t)s};
    double now = 0.0, area = 0.0, squares = 0.0, waits = 0.0, responses = 0.0;
    double uneven = 0.0, since_when = 0.0;
    Balance balance;
    find_balance(&balance, n, start);
    double *least = sums->least;
    int32_t *length = q.length;
    double began = 0.0;
    int64_t goal = w->before, passed = 0;
again:
    while (arrived < goal) {
        const double all = rate + (double)busy, step = exponential(&r) / all;
        now += step;
        area += step * (double)total;
        squares += step * (double)total * (double)total;
        if (full)
            uneven += step * unevenness(&balance);
        const double drawn = uniform(&r) * all;
        if (drawn < rate) {
            const int64_t server = shorter_of_two(&r, length, n);
            const int32_t k = ++length[server];
            if (k >= LEVELS - 2)
                goto out;
            least[k] -= now;
            if (full)
                balance_risen(&balance, k);
            total++;
            arrived++;
            if (k == 1) {
                slot[busy++] = (Slot){now, (int32_t)server};
                waited++;
                if (full)
                    sums->wait[0]++;
            } else if (enqueue(&q, server, k, now))
                goto out;
        } else {
            int64_t which = (int64_t)(drawn - rate);
            which = which < busy ? which : busy - 1;
            const Slot leaving = slot[which];
            const int64_t server = leaving.server;
            const int32_t k = length[server]--;
            least[k] += now;
            if (full)
                balance_fallen(&balance, k);
            total--;
            finished++;
            if (leaving.since != BEFORE) {
                responses += now - leaving.since;
                responded++;
                if (full)
                    sums->response[bucket(now - leaving.since)]++;
            }
            if (k > 1) {
                const double since = dequeue(&q, server);
                slot[which].since = since;
                if (since != BEFORE) {
                    waits += now - since;
                    waited++;
                    if (full)
                        sums->wait[bucket(now - since)]++;
                }
            } else
                slot[which] = slot[--busy];
        }
    }
    if (goal != tasks) { /* the clock starts here, and all sums */
        goal = tasks;
        passed = arrived + finished;
        begin_sums(sums, length, n, now);
        since_when = now;
        area = squares = uneven = waits = responses = 0.0;
        waited = responded = 0;
        began = cpu_seconds();
        goto again;
    }
    sums->seconds = cpu_seconds() - began;
    sums->timed = arrived + finished - passed;
    sums->uneven = uneven;
    close_sums(sums, length, n, now);
    sums->time = now - since_when;
    sums->tasks = area;
    sums->squares = squares;
    sums->waits = waits;
    sums->waited = waited;
    sums->responses = responses;
    sums->responded = responded;
    sums->events = arrived + finished;
    code = 0;
out:
    free_queues(&q);
    free(slot);
    return code;
}

int queues_exponential(const Work *w, Sums *sums)
{
    return exponential_queues(0, w, sums);
}

int queues_exponential_full(const Work *w, Sums *sums)
{
    return exponential_queues(1, w, sums);
}

/* W3: lognormal service of mean 1; the ends of service stand in a binary heap. */
typedef struct {
    double at;
    int32_t server;
} End;

KEEP void sift_down(End *heap, int64_t size, End moved)
{
    int64_t i = 0;
    for (;;) {
        int64_t child = 2 * i + 1;
        if (child >= size)
            break;
        child += child + 1 < size && heap[child + 1].at < heap[child].at;
        if (moved.at <= heap[child].at)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moved;
}

KEEP void sift_up(End *heap, int64_t i, End moved)
{
    while (i > 0) {
        const int64_t parent = (i - 1) / 2;
        if (heap[parent].at <= moved.at)
            break;
        heap[i] = heap[parent];
        i = parent;
    }
    heap[i] = moved;
}

KEEP int lognormal_queues(int full, const Work *w, Sums *sums)
{
    const int64_t n = w->n, tasks = w->tasks;
    const int32_t *start = w->start;
    Rng r = seeded(w->seed);
    Queues q = {0};
    const double gap = 1.0 / (w->load * (double)n), spread = sqrt(log(1.0 + w->scv));
    const double middle = -0.5 * spread * spread;
    End *heap = NULL;
    double *since_of = NULL; /* of the task in service at each server */
    int64_t total, busy = 0, arrived = 0, finished = 0, responded = 0, waited = 0;
    int code = 1;
    make_layers();
    memset(sums, 0, sizeof *sums);
    if (make_queues(&q, n, start, &total))
        goto out;
    heap = malloc(sizeof(End) * (size_t)n);
    since_of = malloc(8 * (size_t)n);
    if (!heap || !since_of)
        goto out;
    for (int64_t s = 0; s < n; s++)
        if (start[s]) {
            since_of[s] = BEFORE;
            sift_up(heap, busy++, (End){exp(middle + spread * normal(&r)), (int32_t)s});
        }
    double now = 0.0, area = 0.0, squares = 0.0, waits = 0.0, responses = 0.0;
    double uneven = 0.0, since_when = 0.0;
    Balance balance;
    find_balance(&balance, n, start);
    double *least = sums->least, coming = gap * exponential(&r);
    int32_t *length = q.length;
    double began = 0.0;
    int64_t goal = w->before, passed = 0;
again:
    while (arrived < goal) {
        const double leaving = busy ? heap[0].at : INFINITY;
        const double at = coming < leaving ? coming : leaving, step = at - now;
        now = at;
        area += step * (double)total;
        squares += step * (double)total * (double)total;
        if (full)
            uneven += step * unevenness(&balance);
        if (coming < leaving) {
            const int64_t server = shorter_of_two(&r, length, n);
            const int32_t k = ++length[server];
            if (k >= LEVELS - 2)
                goto out;
            least[k] -= now;
            if (full)
                balance_risen(&balance, k);
            total++;
            arrived++;
            coming = now + gap * exponential(&r);
            if (k == 1) {
                since_of[server] = now;
                waited++;
                if (full)
                    sums->wait[0]++;
                const double end = now + exp(middle + spread * normal(&r));
                sift_up(heap, busy++, (End){end, (int32_t)server});
            } else if (enqueue(&q, server, k, now))
                goto out;
        } else {
            const int64_t server = heap[0].server;
            const int32_t k = length[server]--;
            least[k] += now;
            if (full)
                balance_fallen(&balance, k);
            total--;
            finished++;
            if (since_of[server] != BEFORE) {
                responses += now - since_of[server];
                responded++;
                if (full)
                    sums->response[bucket(now - since_of[server])]++;
            }
            if (k > 1) {
                const double since = dequeue(&q, server);
                since_of[server] = since;
                if (since != BEFORE) {
                    waits += now - since;
                    waited++;
                    if (full)
                        sums->wait[bucket(now - since)]++;
                }
                const double end = now + exp(middle + spread * normal(&r));
                sift_down(heap, busy, (End){end, (int32_t)server});
            } else {
                busy--;
                sift_down(heap, busy, heap[busy]);
            }
        }
    }
    if (goal != tasks) { /* the clock starts here, and all sums */
        goal = tasks;
        passed = arrived + finished;
        begin_sums(sums, length, n, now);
        since_when = now;
        area = squares = uneven = waits = responses = 0.0;
        waited = responded = 0;
        began = cpu_seconds();
        goto again;
    }
    sums->seconds = cpu_seconds() - began;
    sums->timed = arrived + finished - passed;
    sums->uneven = uneven;
    close_sums(sums, length, n, now);
    sums->time = now - since_when;
    sums->tasks = area;
    sums->squares = squares;
    sums->waits = waits;
    sums->waited = waited;
    sums->responses = responses;
    sums->responded = responded;
    sums->events = arrived + finished;
    code = 0;
out:
    free_queues(&q);
    free(heap);
    free(since_of);
    return code;
}

int queues_lognormal(const Work *w, Sums *sums)
{
    return lognormal_queues(0, w, sums);
}

int queues_lognormal_full(const Work *w, Sums *sums)
{
    return lognormal_queues(1, w, sums);
}
