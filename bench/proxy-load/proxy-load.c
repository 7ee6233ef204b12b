// The client of bench/peers.ts: HTTP/1.1 over kept connections, chat completions with prompts that share prefixes in groups.
//   proxy-load --target IP:PORT [--direct IP:PORT] [--rate R] [--connections C] [--seconds S] [--warmup S]
//              [--body BYTES] [--stream] [--model NAME] [--header 'name: value']
// Without --rate every connection sends its next request after the last answer (closed loop). With --rate requests arrive at
// random (Poisson) R times a second, and a latency counts from the arrival, so that waiting for a connection counts too.
// With --direct, one arrival in eight goes straight to a model server over connections of its own: what a proxy adds is the
// difference between the two, under the same load at the same moment. The latency of a stream is that of its first body byte.
// Prints `begin` after the warmup and one line of JSON at the end of the measured time, then lets open requests end (for at
// most 1 s). It sends to loopback addresses only.
#include "http.h"
#include <math.h>

#define GROUPS 50
#define STAMP 10
#define SAMPLES (1 << 21)
#define WAITING (1 << 16)

typedef struct side side;
typedef struct conn {
  int fd;
  side *of;
  reader in;
  uint64_t asked, first;
  struct conn *next_free;
} conn;

// The proxy, or the way around it.
struct side {
  struct sockaddr_in to;
  conn *free;
  uint64_t waiting[WAITING]; // arrivals without a connection, a ring
  unsigned from, count;
  float *latencies;
  unsigned samples;
  uint64_t done, bytes;
};

static side target, direct;
static int poll_fd, streaming, open_requests;
static size_t body_bytes = 1024, request_n, own_at;
static char *requests[GROUPS];
static uint64_t sent, errors, dropped, random_state = 88172645463325252u;
static int measuring, closing;
static char error_text[200];

static double chance(void) {
  random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
  return (double)(random_state >> 11) / 9007199254740992.0;
}

static void prepare(const char *model, const char *extra) {
  char head[1024];
  int head_n = snprintf(head, sizeof head, "POST /v1/chat/completions HTTP/1.1\r\nhost: bench.local\r\ncontent-type: application/json\r\naccept: */*\r\nuser-agent: bench\r\n%s%scontent-length: %zu\r\n\r\n", extra, *extra ? "\r\n" : "", body_bytes);
  char shell[256];
  int shell_n = snprintf(shell, sizeof shell, "{\"model\":\"%s\",%s\"max_tokens\":200,\"messages\":[{\"role\":\"user\",\"content\":\"", model, streaming ? "\"stream\":true," : "");
  size_t room = body_bytes - (size_t)shell_n - 4, shared = room * 8 / 10;
  request_n = (size_t)head_n + body_bytes;
  own_at = (size_t)head_n + (size_t)shell_n + shared;
  for (int g = 0; g < GROUPS; g++) {
    char *p = requests[g] = malloc(request_n + 1), words[16];
    int words_n = snprintf(words, sizeof words, "group %02d text ", g);
    memcpy(p, head, (size_t)head_n);
    memcpy(p + head_n, shell, (size_t)shell_n);
    for (size_t i = 0; i < room; i++) p[head_n + shell_n + (int)i] = words[i % (size_t)words_n];
    memcpy(p + request_n - 4, "\"}]}", 4);
  }
}

static void failed(const char *what, const char *detail) {
  if (!errors++) snprintf(error_text, sizeof error_text, "%s %.100s", what, detail);
}

static void connect_to(conn *c) {
  c->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (c->fd < 0 || connect(c->fd, (void *)&c->of->to, sizeof c->of->to)) {
    fprintf(stderr, "connect: %s\n", strerror(errno));
    exit(1);
  }
  no_delay(c->fd);
  struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
  epoll_ctl(poll_fd, EPOLL_CTL_ADD, c->fd, &e);
  reader_reset(&c->in);
}

static void ask(conn *c, uint64_t at) {
  char *request = requests[sent % GROUPS], stamp[STAMP + 1];
  snprintf(stamp, sizeof stamp, "%09llu ", (unsigned long long)(sent++ % 1000000000u));
  // The own part of the prompt is new in each request.
  for (size_t i = own_at; i + STAMP <= request_n - 4; i += STAMP) memcpy(request + i, stamp, STAMP);
  c->asked = at;
  c->first = 0;
  reader_reset(&c->in);
  open_requests++;
  // The buffer of the socket has room for every body: one request at a time is under way.
  if (send(c->fd, request, request_n, MSG_NOSIGNAL) != (ssize_t)request_n) failed("send:", strerror(errno));
}

static void next(conn *c, uint64_t now, int closed_loop) {
  side *of = c->of;
  if (closing) return;
  if (closed_loop) ask(c, now);
  else if (of->count) {
    of->count--;
    ask(c, of->waiting[of->from++ % WAITING]);
  } else c->next_free = of->free, of->free = c;
}

static void arrive(side *of, uint64_t at) {
  conn *c = of->free;
  if (c) of->free = c->next_free, ask(c, at);
  else if (of->count < WAITING) of->waiting[(of->from + of->count++) % WAITING] = at;
  else dropped++;
}

static void answered(conn *c, uint64_t now) {
  side *of = c->of;
  open_requests--;
  if (strncmp(c->in.head, "HTTP/1.1 200", 12)) failed("answer", c->in.head_bytes ? c->in.head : "cut off");
  else if (measuring) {
    of->done++;
    of->bytes += c->in.body_seen;
    if (of->samples < SAMPLES) of->latencies[of->samples++] = (float)((streaming ? c->first : now) - c->asked) / 1000;
  }
}

static void readable(conn *c, int closed_loop) {
  static char buffer[1 << 16];
  ssize_t n = recv(c->fd, buffer, sizeof buffer, 0);
  uint64_t now = now_ns();
  int idle = c->in.state == DONE || (c->in.state == HEAD && c->in.head_bytes == 0 && !c->asked);
  if (n <= 0) {
    close(c->fd);
    connect_to(c);
    if (!idle) {
      open_requests--;
      failed("the connection broke:", n < 0 ? strerror(errno) : "end of file");
      next(c, now, closed_loop);
    }
    return;
  }
  if (idle) return;
  size_t at = reader_push(&c->in, buffer, (size_t)n, 1, NULL, 0);
  if (!c->first && c->in.body_seen) c->first = now;
  if (c->in.state == BROKEN || at < (size_t)n) failed("not HTTP:", c->in.head), c->in.state = DONE;
  if (c->in.state != DONE) return;
  answered(c, now);
  const char *connection = header(&c->in, "connection:");
  if (connection && strncasecmp(connection, "close", 5) == 0) {
    close(c->fd);
    connect_to(c);
  }
  c->asked = 0;
  next(c, now, closed_loop);
}

static struct sockaddr_in address(const char *text) {
  char host[64];
  const char *colon = strrchr(text, ':');
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(colon ? atoi(colon + 1) : 0))};
  snprintf(host, sizeof host, "%.*s", (int)(colon ? colon - text : 0), text);
  if (inet_pton(AF_INET, host, &a.sin_addr) != 1 || (ntohl(a.sin_addr.s_addr) >> 24) != 127) {
    fprintf(stderr, "%s is no loopback address\n", text);
    exit(2);
  }
  return a;
}

static int by_size(const void *a, const void *b) { return (*(const float *)a > *(const float *)b) - (*(const float *)a < *(const float *)b); }
static double quantile(const side *s, double q) { return s->samples ? (double)s->latencies[(unsigned)(q * (s->samples - 1))] : 0; }

int main(int argc, char **argv) {
  double rate = 0, seconds = 1, warmup = 1;
  int connections = 32, with_direct = 0;
  const char *model = "m", *extra = "";
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : "";
    if (!strcmp(argv[i], "--stream")) { streaming = 1; continue; }
    i++;
    if (!strcmp(argv[i - 1], "--target")) target.to = address(value);
    else if (!strcmp(argv[i - 1], "--direct")) direct.to = address(value), with_direct = 1;
    else if (!strcmp(argv[i - 1], "--rate")) rate = atof(value);
    else if (!strcmp(argv[i - 1], "--connections")) connections = atoi(value);
    else if (!strcmp(argv[i - 1], "--seconds")) seconds = atof(value);
    else if (!strcmp(argv[i - 1], "--warmup")) warmup = atof(value);
    else if (!strcmp(argv[i - 1], "--body")) body_bytes = (size_t)atol(value);
    else if (!strcmp(argv[i - 1], "--model")) model = value;
    else if (!strcmp(argv[i - 1], "--header")) extra = value;
    else { fprintf(stderr, "no option %s\n", argv[i - 1]); return 2; }
  }
  if (!target.to.sin_port || connections < 1 || connections > 4096 || body_bytes < 512 || body_bytes > 100000 || seconds > 60 || warmup > 60 || rate > 200000) {
    fprintf(stderr, "--target is missing, or a value is out of range\n");
    return 2;
  }
  prepare(model, extra);
  poll_fd = epoll_create1(0);
  int closed_loop = rate == 0, of_target = closed_loop || !with_direct ? connections : connections * 7 / 8;
  conn *all = calloc((size_t)connections, sizeof *all);
  target.latencies = malloc(SAMPLES * sizeof(float));
  direct.latencies = malloc(SAMPLES * sizeof(float));
  for (int i = 0; i < connections; i++) {
    all[i].of = i < of_target ? &target : &direct;
    connect_to(&all[i]);
    next(&all[i], now_ns(), closed_loop);
  }
  uint64_t start = now_ns(), begin = start + (uint64_t)(warmup * 1e9), end = begin + (uint64_t)(seconds * 1e9), arrival = start;
  struct epoll_event events[256];
  for (;;) {
    uint64_t now = now_ns();
    if (!measuring && !closing && now >= begin) {
      measuring = 1;
      begin = now;
      errors = dropped = 0;
      puts("begin");
      fflush(stdout);
    }
    if (measuring && now >= end) {
      measuring = 0, closing = 1;
      qsort(target.latencies, target.samples, sizeof(float), by_size);
      qsort(direct.latencies, direct.samples, sizeof(float), by_size);
      printf("{\"seconds\":%.4f,\"done\":%llu,\"directDone\":%llu,\"errors\":%llu,\"error\":\"", (double)(now - begin) / 1e9, (unsigned long long)target.done, (unsigned long long)direct.done, (unsigned long long)errors);
      for (const char *p = error_text; *p; p++) if (*p >= ' ' && *p != '"' && *p != '\\') putchar(*p);
      printf("\",\"waiting\":%llu,\"p50\":%.1f,\"p99\":%.1f,\"p999\":%.1f,\"directP50\":%.1f,\"directP99\":%.1f,\"bytes\":%llu}\n", (unsigned long long)(target.count + dropped), quantile(&target, 0.5), quantile(&target, 0.99), quantile(&target, 0.999), quantile(&direct, 0.5), quantile(&direct, 0.99), (unsigned long long)target.bytes);
      fflush(stdout);
    }
    if (closing && (open_requests == 0 || now >= end + 1000000000u)) return 0;
    int wait = 1;
    if (!closed_loop && !closing) {
      for (; arrival <= now; arrival += (uint64_t)(-log(1 - chance()) / rate * 1e9)) arrive(with_direct && sent % 8 == 7 ? &direct : &target, arrival);
      // A sleep of whole milliseconds would make arrivals late, so short waits spin.
      wait = arrival - now > 2000000 ? 1 : 0;
    }
    int ready = epoll_wait(poll_fd, events, 256, wait);
    for (int i = 0; i < ready; i++) readable(events[i].data.ptr, closed_loop);
  }
}
