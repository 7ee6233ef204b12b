// Model servers without a model: one process on 0.0.0.0:PORT, so every 127.x.y.z:PORT is one of them.
// A POST gets a canned completion at once, or with `"stream":true` in its first 4 KB CHUNKS events, one every PACE
// microseconds, each in a write of its own. GET /metrics gets the page of FILE, every other GET the list of models.
//   model-servers --page FILE --model NAME [--port 0] [--chunks 200] [--pace 2000]
// Prints `listening port=PORT`. It keeps no count and ends with its parent's SIGKILL.
#include "http.h"

typedef struct conn {
  int fd;
  reader in;
  char text[4096]; // first bytes of the request's body
  int sent;        // events of the running stream; 0 = none
  uint64_t due;
  struct conn *next, *prev; // the queue of streams, by due time: all have one pace
} conn;

static conn queue = {.next = &queue, .prev = &queue};
static int chunks = 200;
static uint64_t pace = 2000000;
static char *page, *models, *answer, stream_head[512], event[1024], last_event[1024];
static size_t page_n, models_n, answer_n, head_n, event_n, last_n;

static void unlink_stream(conn *c) {
  if (!c->sent) return;
  c->prev->next = c->next;
  c->next->prev = c->prev;
  c->sent = 0;
}
static void drop(conn *c) {
  unlink_stream(c);
  close(c->fd);
  free(c);
}
static int put(conn *c, const char *p, size_t n) { return send(c->fd, p, n, MSG_NOSIGNAL) == (ssize_t)n; }
static void wait_turn(conn *c) {
  c->due += pace;
  c->next = &queue;
  c->prev = queue.prev;
  queue.prev->next = c;
  queue.prev = c;
}

static char *whole(const char *type, const char *body, size_t body_n, size_t *n) {
  char *out = malloc(body_n + 256);
  int k = sprintf(out, "HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: %s\r\ncontent-length: %zu\r\n\r\n", type, body_n);
  memcpy(out + k, body, body_n);
  *n = (size_t)k + body_n;
  return out;
}

static void prepare(const char *model, const char *file) {
  static char text[1 << 20];
  FILE *f = fopen(file, "rb");
  if (!f) { perror(file); exit(1); }
  size_t n = fread(text, 1, sizeof text, f);
  fclose(f);
  page = whole("text/plain; version=0.0.4; charset=utf-8", text, n, &page_n);
  n = (size_t)sprintf(text, "{\"object\":\"list\",\"data\":[{\"id\":\"%s\",\"object\":\"model\",\"owned_by\":\"vllm\"}],\"model_path\":\"%s\",\"status\":\"ready\"}", model, model);
  models = whole("application/json", text, n, &models_n);
  static char words[701];
  for (int i = 0; i < 700; i++) words[i] = "lorem ipsum dolor "[i % 18];
  n = (size_t)sprintf(text, "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1790000000,\"model\":\"%s\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"%s\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":200,\"completion_tokens\":150,\"total_tokens\":350}}", model, words);
  answer = whole("application/json", text, n, &answer_n);
  head_n = (size_t)sprintf(stream_head, "HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n");
  n = (size_t)sprintf(text, "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,\"model\":\"%s\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},\"finish_reason\":null}]}\n\n", model);
  event_n = (size_t)snprintf(event, sizeof event, "%zx\r\n%s\r\n", n, text);
  n = (size_t)sprintf(text, "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,\"model\":\"%s\",\"choices\":[],\"usage\":{\"prompt_tokens\":200,\"completion_tokens\":%d,\"total_tokens\":%d}}\n\ndata: [DONE]\n\n", model, chunks, chunks + 200);
  last_n = (size_t)snprintf(last_event, sizeof last_event, "%zx\r\n%s\r\n0\r\n\r\n", n, text);
}

// Answers a whole request. Returns 0 when the connection is of no use any more.
static int reply(conn *c) {
  int fine;
  if (strncmp(c->in.head, "POST ", 5) == 0) {
    if (memmem(c->text, c->in.body_seen < sizeof c->text ? c->in.body_seen : sizeof c->text, "\"stream\":true", 13)) {
      char first[2048];
      memcpy(first, stream_head, head_n);
      memcpy(first + head_n, event, event_n);
      fine = put(c, first, head_n + event_n);
      c->sent = 1;
      c->due = now_ns();
      wait_turn(c);
    } else fine = put(c, answer, answer_n);
  } else if (strncmp(c->in.head, "GET /metrics", 12) == 0) fine = put(c, page, page_n);
  else fine = put(c, models, models_n);
  reader_reset(&c->in);
  return fine;
}

int main(int argc, char **argv) {
  int port = 0;
  const char *file = NULL, *model = "m";
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--port")) port = atoi(argv[i + 1]);
    else if (!strcmp(argv[i], "--page")) file = argv[i + 1];
    else if (!strcmp(argv[i], "--model")) model = argv[i + 1];
    else if (!strcmp(argv[i], "--chunks")) chunks = atoi(argv[i + 1]);
    else if (!strcmp(argv[i], "--pace")) pace = strtoull(argv[i + 1], NULL, 10) * 1000;
    else { fprintf(stderr, "no option %s\n", argv[i]); return 2; }
  }
  if (!file) { fprintf(stderr, "--page is needed\n"); return 2; }
  prepare(model, file);
  int poll = epoll_create1(0), listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_ANY)};
  socklen_t size = sizeof address;
  if (bind(listener, (void *)&address, size) || listen(listener, 4096)) { perror("listen"); return 1; }
  getsockname(listener, (void *)&address, &size);
  struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = NULL}, events[256];
  epoll_ctl(poll, EPOLL_CTL_ADD, listener, &wanted);
  printf("listening port=%d\n", ntohs(address.sin_port));
  fflush(stdout);
  static char buffer[1 << 17];
  for (;;) {
    int wait = -1;
    if (queue.next != &queue) {
      uint64_t now = now_ns();
      wait = queue.next->due <= now ? 0 : (int)((queue.next->due - now + 999999) / 1000000);
    }
    int ready = epoll_wait(poll, events, 256, wait);
    for (int i = 0; i < ready; i++) {
      conn *c = events[i].data.ptr;
      if (!c) {
        for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
          no_delay(fd);
          c = calloc(1, sizeof *c);
          c->fd = fd;
          struct epoll_event add = {.events = EPOLLIN, .data.ptr = c};
          epoll_ctl(poll, EPOLL_CTL_ADD, fd, &add);
        }
        continue;
      }
      ssize_t n = recv(c->fd, buffer, sizeof buffer, 0);
      if (n < 0 && errno == EAGAIN) continue;
      if (n <= 0) { drop(c); continue; }
      for (size_t at = 0; at < (size_t)n;) {
        // A request during a stream would be pipelined, which no proxy here does.
        if (c->sent) { drop(c); break; }
        at += reader_push(&c->in, buffer + at, (size_t)n - at, 0, c->text, sizeof c->text);
        if (c->in.state == BROKEN || (c->in.state == DONE && !reply(c))) { drop(c); break; }
      }
    }
    for (uint64_t now = now_ns(); queue.next != &queue && queue.next->due <= now;) {
      conn *c = queue.next;
      int sent = c->sent;
      unlink_stream(c);
      if (sent >= chunks) { if (!put(c, last_event, last_n)) drop(c); continue; }
      if (!put(c, event, event_n)) { drop(c); continue; }
      c->sent = sent + 1;
      wait_turn(c);
    }
  }
}
