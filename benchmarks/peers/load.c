/* Load a JSON-lines socket: CONNECTIONS with IN_FLIGHT calls on each, for SECONDS; one JSON object on stdout.
 *
 *   load SOCKET PID CONNECTIONS IN_FLIGHT SECONDS NAME INPUT EXPECTED
 *
 * PID is the server whose CPU time is read around the timed window. INPUT is the JSON value sent with every call,
 * EXPECTED the bytes that stand in a right answer ("" for any). Every answer's id is checked against the ids sent on
 * its connection, so that an answer given twice, or never, is counted. Phases: one call on each connection (sessions
 * open), a warm-up of a fifth of SECONDS, the timed window, then reading on until every call is answered.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { ID_DIGITS = 9, FIRST_READ = 1 << 16, EVENTS = 512, BUCKETS = 64 * 256, WAIT_S = 60 };
enum phase { OPENING, WARMING, TIMED, DRAINING };

struct connection {
    int fd, wants_write;
    uint32_t sent, answered;
    unsigned char *seen;    /* one bit for each id: answered already */
    size_t seen_bytes;
    uint64_t *sent_at;      /* a ring over ids; wide enough unless answers overtake one another by four windows */
    char *out, *in;
    size_t out_at, out_len, in_len, in_room;
};

static char *template, *expected;
static size_t template_len, id_at, expected_len;
static uint32_t in_flight, ring_mask;
static uint64_t histogram[BUCKETS];
static uint64_t counted, wrong, errors, sampled;
static enum phase phase = OPENING;
static int poller;

static void fail(const char *what) {
    fprintf(stderr, "cannot %s: %s\n", what, strerror(errno));
    exit(1);
}

static void *room(void *old, size_t size) {
    void *memory = realloc(old, size);
    if (memory == NULL)
        fail("allocate");
    return memory;
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t own_cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* CPU of all threads of `pid`, its children excluded; 0 where the kernel keeps no schedstat. */
static uint64_t cpu_ns(const char *pid) {
    char path[512];
    uint64_t total = 0;
    struct dirent *entry;
    snprintf(path, sizeof path, "/proc/%s/task", pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL)
        return 0;
    while ((entry = readdir(tasks)) != NULL) {
        unsigned long long run = 0;
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%s/task/%s/schedstat", pid, entry->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            continue;
        if (fscanf(file, "%llu", &run) == 1)
            total += run;
        fclose(file);
    }
    closedir(tasks);
    return total;
}

/* Eight bits of mantissa for each power of two: 0.4 % wide. */
static unsigned bucket_of(uint64_t ns) {
    if (ns < 256)
        return (unsigned)ns;
    unsigned power = 63u - (unsigned)__builtin_clzll(ns);
    return ((power - 7u) << 8) | (unsigned)((ns >> (power - 8u)) & 255u);
}

static double bucket_us(unsigned bucket) {
    unsigned power = (bucket >> 8) + 7u;
    if (bucket < 256)
        return bucket / 1e3;
    return (double)((256u + (bucket & 255u)) * (1ull << (power - 8u))) / 1e3;
}

static double percentile_us(double share) {
    uint64_t want = (uint64_t)((double)sampled * share), seen = 0;
    for (unsigned bucket = 0; bucket < BUCKETS; bucket++)
        if ((seen += histogram[bucket]) > want)
            return bucket_us(bucket);
    return 0;
}

static void watch(struct connection *c, int operation) {
    struct epoll_event event = {.events = EPOLLIN | (c->wants_write ? EPOLLOUT : 0), .data.ptr = c};
    if (epoll_ctl(poller, operation, c->fd, &event) != 0)
        fail("watch a connection");
}

static void flush_out(struct connection *c) {
    while (c->out_at < c->out_len) {
        ssize_t done = send(c->fd, c->out + c->out_at, c->out_len - c->out_at, MSG_NOSIGNAL);
        if (done < 0 && errno == EAGAIN)
            break;
        if (done < 0)
            fail("send");
        c->out_at += (size_t)done;
    }
    int wants_write = c->out_at < c->out_len;
    if (!wants_write)
        c->out_at = c->out_len = 0;
    if (wants_write != c->wants_write) {
        c->wants_write = wants_write;
        watch(c, EPOLL_CTL_MOD);
    }
}

static void request(struct connection *c, uint32_t calls) {
    uint64_t now = now_ns();
    if (c->out_at > 0) {
        memmove(c->out, c->out + c->out_at, c->out_len - c->out_at);
        c->out_len -= c->out_at;
        c->out_at = 0;
    }
    for (uint32_t i = 0; i < calls; i++) {
        char *line = c->out + c->out_len;
        uint32_t id = c->sent++;
        memcpy(line, template, template_len);
        for (int digit = ID_DIGITS - 1, left = (int)id; digit >= 0; digit--, left /= 10)
            line[id_at + (size_t)digit] = (char)('0' + left % 10);
        c->sent_at[id & ring_mask] = now;
        c->out_len += template_len;
    }
    if (c->sent / 8 + 1 > c->seen_bytes) {
        size_t grown = c->seen_bytes * 2 + in_flight / 8 + 1024;
        c->seen = room(c->seen, grown);
        memset(c->seen + c->seen_bytes, 0, grown - c->seen_bytes);
        c->seen_bytes = grown;
    }
    flush_out(c);
}

static void check(struct connection *c, const char *line, size_t len, uint64_t now) {
    const char *at = memmem(line, len, "\"id\":\"", 6);
    uint32_t id = 0;
    if (at == NULL || line + len < at + 6 + ID_DIGITS) {
        wrong++;
        return;
    }
    for (int i = 0; i < ID_DIGITS; i++)
        id = id * 10 + (uint32_t)(at[6 + i] - '0');
    if (id >= c->sent || (c->seen[id >> 3] >> (id & 7)) & 1) {
        wrong++;
        return;
    }
    c->seen[id >> 3] |= (unsigned char)(1u << (id & 7));
    c->answered++;
    /* Every answer of the opening and one in 64 after it are read whole; the rest by their id alone. */
    if ((id & 63) == 0 && (memmem(line, len, "\"is_error\":false", 16) == NULL ||
                           (expected_len > 0 && memmem(line, len, expected, expected_len) == NULL))) {
        if (errors++ == 0)
            fprintf(stderr, "not the answer expected: %.*s\n", (int)(len < 400 ? len : 400), line);
    }
    if (phase == TIMED) {
        counted++;
        sampled++;
        histogram[bucket_of(now - c->sent_at[id & ring_mask])]++;
    }
}

static uint32_t read_answers(struct connection *c) {
    uint32_t before = c->answered;
    if (c->in_room - c->in_len < FIRST_READ)
        c->in = room(c->in, c->in_room = c->in_room * 2 + FIRST_READ);
    ssize_t got = recv(c->fd, c->in + c->in_len, c->in_room - c->in_len, 0);
    if (got < 0 && errno == EAGAIN)
        return 0;
    if (got < 0)
        fail("receive");
    if (got == 0) {
        fprintf(stderr, "the server closed a connection\n");
        exit(1);
    }
    uint64_t now = now_ns();
    char *start = c->in, *end = c->in + c->in_len + (size_t)got, *newline = c->in + c->in_len;
    while ((newline = memchr(newline, '\n', (size_t)(end - newline))) != NULL) {
        check(c, start, (size_t)(newline - start), now);
        start = ++newline;
    }
    c->in_len = (size_t)(end - start);
    memmove(c->in, start, c->in_len);
    return c->answered - before;
}

static void serve_ready(int wait_ms) {
    struct epoll_event events[EVENTS];
    int ready = epoll_wait(poller, events, EVENTS, wait_ms);
    for (int i = 0; i < ready; i++) {
        struct connection *c = events[i].data.ptr;
        uint32_t answered = 0;
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            answered = read_answers(c);
        if (answered > 0 && (phase == WARMING || phase == TIMED))
            request(c, answered);
        else if (events[i].events & EPOLLOUT)
            flush_out(c);
    }
}

static uint64_t unanswered(struct connection *all, int connections) {
    uint64_t left = 0;
    for (int i = 0; i < connections; i++)
        left += all[i].sent - all[i].answered;
    return left;
}

static void wait_for_all(struct connection *all, int connections) {
    uint64_t until = now_ns() + WAIT_S * 1000000000ull;
    while (unanswered(all, connections) > 0 && now_ns() < until)
        serve_ready(100);
}

static void open_connection(struct connection *c, const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        fail("connect");
    }
    strcpy(address.sun_path, path);
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail("connect");
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    c->sent_at = room(NULL, (ring_mask + 1) * sizeof *c->sent_at);
    /* A window of requests, and one more for what is not sent yet. */
    c->out = room(NULL, template_len * (in_flight + 1) * 2);
    watch(c, EPOLL_CTL_ADD);
}

static void build_template(const char *name, const char *input) {
    const char *head = "{\"__port\":\"tool_req\",\"id\":\"";
    template = room(NULL, strlen(head) + strlen(name) + strlen(input) + 64);
    id_at = strlen(head);
    template_len = (size_t)sprintf(template, "%s%0*d\",\"name\":\"%s\",\"input\":%s}\n", head, ID_DIGITS, 0, name, input);
}

int main(int count, char **words) {
    if (count != 9) {
        fprintf(stderr, "usage: load SOCKET PID CONNECTIONS IN_FLIGHT SECONDS NAME INPUT EXPECTED\n");
        return 2;
    }
    int connections = atoi(words[3]);
    uint64_t span = (uint64_t)(atof(words[5]) * 1e9);
    in_flight = (uint32_t)atoi(words[4]);
    for (ring_mask = 1; ring_mask < in_flight * 4; ring_mask *= 2)
        ;
    ring_mask--;
    build_template(words[6], words[7]);
    expected = words[8];
    expected_len = strlen(expected);
    if ((poller = epoll_create1(EPOLL_CLOEXEC)) < 0)
        fail("create an epoll set");
    struct connection *all = calloc((size_t)connections, sizeof *all);
    for (int i = 0; i < connections; i++)
        open_connection(&all[i], words[1]);
    for (int i = 0; i < connections; i++)
        request(&all[i], 1);
    wait_for_all(all, connections);
    if (unanswered(all, connections) > 0) {
        fprintf(stderr, "the first calls were not all answered within %d s\n", WAIT_S);
        return 1;
    }
    phase = WARMING;
    for (int i = 0; i < connections; i++)
        request(&all[i], in_flight);
    for (uint64_t until = now_ns() + span / 5; now_ns() < until;)
        serve_ready(10);
    phase = TIMED;
    uint64_t server = cpu_ns(words[2]), own = own_cpu_ns(), start = now_ns();
    while (now_ns() < start + span)
        serve_ready(10);
    uint64_t took = now_ns() - start;
    own = own_cpu_ns() - own;
    server = cpu_ns(words[2]) - server;
    phase = DRAINING;
    wait_for_all(all, connections);
    printf("{\"calls\":%llu,\"seconds\":%.6f,\"p50_us\":%.2f,\"p99_us\":%.2f,\"server_cpu_us\":%.3f,"
           "\"own_cpu_share\":%.3f,\"wrong\":%llu,\"errors\":%llu,\"unanswered\":%llu}\n",
           (unsigned long long)counted, (double)took / 1e9, percentile_us(0.5), percentile_us(0.99),
           counted ? (double)server / 1e3 / (double)counted : 0.0, (double)own / (double)took,
           (unsigned long long)wrong, (unsigned long long)errors, (unsigned long long)unanswered(all, connections));
    return 0;
}
