// What client and servers of bench/peers.ts share: time, and the end of an HTTP/1.1 message that arrives in pieces.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#define HEAD_MAX 8192

enum state { HEAD, LENGTH, CHUNK_SIZE, CHUNK_DATA, CHUNK_END, TRAILER, UNTIL_CLOSE, DONE, BROKEN };

// A reader of one message. It keeps the head and counts the body; `body_seen` = bytes of the body so far.
typedef struct {
  enum state state;
  char head[HEAD_MAX + 1];
  size_t head_bytes;
  uint64_t left, body_seen;
  unsigned line; // bytes of the present line of a chunk size or trailer
} reader;

static inline void reader_reset(reader *r) {
  r->state = HEAD;
  r->head_bytes = 0;
  r->left = r->body_seen = 0;
  r->line = 0;
}

// The value of a header, or NULL. `name` with its colon, lower case.
static inline const char *header(const reader *r, const char *name) {
  size_t n = strlen(name);
  for (const char *p = strstr(r->head, "\r\n"); p; p = strstr(p + 2, "\r\n"))
    if (strncasecmp(p + 2, name, n) == 0) {
      p += 2 + n;
      while (*p == ' ') p++;
      return p;
    }
  return NULL;
}

static inline void head_done(reader *r, int is_response) {
  const char *length = header(r, "content-length:"), *coding = header(r, "transfer-encoding:");
  if (coding && strncasecmp(coding, "chunked", 7) == 0) r->state = CHUNK_SIZE, r->left = 0;
  else if (length) r->left = strtoull(length, NULL, 10), r->state = r->left ? LENGTH : DONE;
  else r->state = is_response ? UNTIL_CLOSE : DONE;
}

// Reads up to the end of the message; returns how many of the bytes belong to it. `text` (or NULL) gets the first bytes of the body.
static inline size_t reader_push(reader *r, const char *p, size_t n, int is_response, char *text, size_t text_max) {
  size_t at = 0;
  while (at < n && r->state != DONE && r->state != BROKEN) {
    switch (r->state) {
    case HEAD:
      if (r->head_bytes == HEAD_MAX) { r->state = BROKEN; break; }
      r->head[r->head_bytes++] = p[at++];
      if (r->head_bytes >= 4 && p[at - 1] == '\n' && memcmp(r->head + r->head_bytes - 4, "\r\n\r\n", 4) == 0) {
        r->head[r->head_bytes] = 0;
        head_done(r, is_response);
      }
      break;
    case LENGTH:
    case CHUNK_DATA:
    case UNTIL_CLOSE: {
      size_t take = n - at;
      if (r->state != UNTIL_CLOSE && take > r->left) take = r->left;
      if (text && r->body_seen < text_max)
        memcpy(text + r->body_seen, p + at, take < text_max - r->body_seen ? take : text_max - r->body_seen);
      at += take;
      r->body_seen += take;
      if (r->state != UNTIL_CLOSE && (r->left -= take) == 0) r->state = r->state == LENGTH ? DONE : CHUNK_END;
      break;
    }
    case CHUNK_SIZE: {
      char c = p[at++];
      if (c == '\n') {
        r->state = r->left ? CHUNK_DATA : TRAILER;
        r->line = 0;
      } else if (c >= '0' && c <= '9') r->left = r->left * 16 + (uint64_t)(c - '0');
      else if ((c | 32) >= 'a' && (c | 32) <= 'f') r->left = r->left * 16 + (uint64_t)((c | 32) - 'a' + 10);
      else if (c != '\r') r->state = BROKEN;
      break;
    }
    case CHUNK_END:
      if (p[at++] == '\n') r->state = CHUNK_SIZE;
      break;
    case TRAILER: {
      char c = p[at++];
      if (c == '\n') {
        if (r->line == 0) r->state = DONE;
        r->line = 0;
      } else if (c != '\r') r->line++;
      break;
    }
    default: break;
    }
  }
  return at;
}

static inline void no_delay(int fd) {
  int one = 1, room = 1 << 19;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
}
