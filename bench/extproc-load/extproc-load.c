// extproc-load: load client for Envoy ext_proc servers (endpoint pickers). One thread, epoll, libnghttp2.
// Behaves as Envoy's ext_proc filter in FULL_DUPLEX_STREAMED mode with trailers off:
//   request_headers -> request_body chunks (last one end_of_stream) | wait for the pick
//   <- request_headers response (destination) <- request_body responses until end_of_stream
//   -> response_headers -> response_body chunks ... end_of_stream     | wait for the echo of all of them
//   then half-close and wait for grpc-status, or RST_STREAM (--reset).
// build: cc -O2 -o extproc-load extproc-load.c -lnghttp2 -lssl -lcrypto -lm
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const char USAGE[] =
"usage: extproc-load [options]\n"
"connection\n"
"  --addr HOST:PORT        ext_proc server (127.0.0.1:9002)\n"
"  --tls | --insecure      TLS with ALPN h2, certificate not verified | clear text (default)\n"
"  --connections N         HTTP/2 connections (1)\n"
"load\n"
"  --streams C             closed loop: C streams in flight in total (64)\n"
"  --rate R                open loop: R requests/s, latency counted from the scheduled start\n"
"  --poisson               exponential gaps instead of equal gaps (with --rate)\n"
"  --max-active N          open loop: refuse to start more than N streams at once (8000)\n"
"  --duration S            measure for S seconds (5)   --warmup S  before that (2)\n"
"  --requests N            instead: stop after N finished requests, all of them measured\n"
"request\n"
"  --body FILE             request body as is; else a chat completion is generated:\n"
"  --body-bytes N          size of the generated JSON (1024)\n"
"  --shared-prefix R       fraction of the body that is a prefix shared inside a group (0)\n"
"  --groups G              number of prefix groups, chosen uniformly (10)\n"
"  --model NAME            (meta-llama/Llama-3.1-8B-Instruct)\n"
"  --seed N                (1) text and choices\n"
"  --req-chunk N           bytes of body per request_body message (16384), 0 = one message\n"
"  --eos-empty none|req|resp|both   end_of_stream in an extra empty message (resp if SSE, else none)\n"
"  --header-only           GET /v1/models, end_of_stream in the header message\n"
"  --header 'K: V'         extra request header (repeatable)\n"
"  --no-protocol-config    do not send protocol_config in the first message\n"
"response\n"
"  --pick-only             end the stream after the request phase\n"
"  --response-chunks N     0 = one JSON body (default); N>0 = SSE with N chunks, usage in the last\n"
"  --chunk-bytes B         bytes per SSE chunk (190)\n"
"  --chunk-interval-ms X   pace the chunks; default 0 = as fast as --window allows\n"
"  --window W              unpaced: at most W chunks not yet echoed (8)\n"
"  --upstream-ms X         time between the end of the request phase and response headers (0)\n"
"  --reset                 end with RST_STREAM(INTERNAL_ERROR), as Envoy does instead of half-close\n"
"  --verify                compare echoed bytes with sent bytes (always: lengths)\n"
"report\n"
"  --server-pid PID        CPU and RSS of this process are reported\n"
"  --label TEXT            copied to the output      --json  one JSON line only\n"
"  --dist N                print the N most picked endpoints (5)\n";

typedef struct { uint8_t *p; size_t n, cap; } vec;
static void vgrow(vec *v, size_t k) { if (v->n + k > v->cap) { v->cap = (v->n + k) * 2 + 64; v->p = realloc(v->p, v->cap); if (!v->p) abort(); } }
static void vput(vec *v, const void *p, size_t n) { vgrow(v, n); memcpy(v->p + v->n, p, n); v->n += n; }
static void vvar(vec *v, uint64_t x) { vgrow(v, 10); while (x >= 128) { v->p[v->n++] = x | 128; x >>= 7; } v->p[v->n++] = x; }
static void vlen(vec *v, int field, const void *p, size_t n) { vvar(v, field << 3 | 2); vvar(v, n); vput(v, p, n); }
static void vbool(vec *v, int field) { vvar(v, field << 3); vvar(v, 1); }
static void frame5(vec *v, const void *p, size_t n) { uint8_t h[5] = {0, n >> 24, n >> 16, n >> 8, n}; vput(v, h, 5); vput(v, p, n); }

// ---------------------------------------------------------------- options
static char *o_addr = "127.0.0.1:9002", *o_body, *o_model = "meta-llama/Llama-3.1-8B-Instruct", *o_label = "";
static int o_tls, o_conns = 1, o_streams = 64, o_poisson, o_maxactive = 8000, o_groups = 10, o_hdronly, o_proto = 1, o_pickonly, o_chunks, o_window = 8, o_reset, o_verify, o_json, o_dist = 5, o_eosreq, o_eosresp = -1, o_pid;
static double o_rate, o_dur = 5, o_warm = 2, o_shared, o_interval, o_upstream; static long o_requests; static size_t o_bytes = 1024, o_reqchunk = 16384, o_chunkbytes = 190; static uint64_t seed = 1;
static char *xh[32][2]; static int nxh;

// ---------------------------------------------------------------- small helpers
static uint64_t now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }
static uint64_t rs; static uint64_t rnd(void) { rs ^= rs << 13; rs ^= rs >> 7; rs ^= rs << 17; return rs; }
static double rnd01(void) { return (rnd() >> 11) * (1.0 / 9007199254740992.0); }
// log-linear histogram of nanoseconds, 128 steps per power of two (<0.8 % error)
typedef struct { uint64_t c[64 * 128]; uint64_t n, max; double sum; } hist;
static void hadd(hist *h, uint64_t ns) { h->n++; h->sum += ns; if (ns > h->max) h->max = ns; int e = 0; uint64_t v = ns; if (v >= 256) { e = 56 - __builtin_clzll(v); v >>= e; } h->c[e * 128 + v]++; }
static double hq(const hist *h, double q) { if (!h->n) return 0; uint64_t k = (uint64_t)(q * h->n), s = 0; if (k >= h->n) k = h->n - 1; for (int i = 0; i < 64 * 128; i++) { s += h->c[i]; if (s > k) { if (i < 256) return i / 1e3; int e = i / 128 - 1; uint64_t m = i - e * 128; return (double)(m << e) / 1e3; } } return h->max / 1e3; }
static hist h_pick, h_all, h_chunk, h_late;

// ---------------------------------------------------------------- messages
static vec m_sh, m_chunk, m_last, m_eos, m_json; static char *pool; static size_t pooln = 1 << 21; static char **prefix; static size_t prefn, sufn; static vec j_head, j_mid, j_tail; static vec filebody; static size_t b_chunk, b_last, b_json;
static void hdr(vec *hm, const char *k, const char *v) { vec h = {0}; vlen(&h, 1, k, strlen(k)); vlen(&h, 3, v, strlen(v)); vlen(hm, 1, h.p, h.n); free(h.p); }
static void body_msg(vec *out, int field, const void *p, size_t n, int eos) { vec b = {0}, m = {0}; if (n) vlen(&b, 1, p, n); if (eos) vbool(&b, 2); vlen(&m, field, b.p, b.n); frame5(out, m.p, m.n); free(b.p); free(m.p); }
static void make_text(void) {
  static const char *sy[] = {"ka","to","ri","men","so","lu","pa","ver","in","con","ta","de","mi","al","ex","pro","su","on","er","ling","ment","tion","the","of","and","to","is","in","that","for"}; char w[2000][16];
  for (int i = 0; i < 2000; i++) { int k = 1 + rnd() % 3; w[i][0] = 0; while (k--) strcat(w[i], sy[rnd() % 30]); }
  pool = malloc(pooln + 64); size_t n = 0; int line = 0; while (n < pooln) { uint64_t r = rnd(); const char *x = w[(r % 2000) * ((r >> 32) % 2000) / 2000]; size_t k = strlen(x); memcpy(pool + n, x, k); n += k; line += k + 1; if (line > 90) { pool[n++] = '.'; pool[n++] = '\\'; pool[n++] = 'n'; line = 0; } else pool[n++] = ' '; } }
static void cut(char *dst, size_t off, size_t n) { memcpy(dst, pool + off % (pooln - n), n); if (n && dst[0] == 'n') dst[0] = ' '; if (n && dst[n - 1] == '\\') dst[n - 1] = ' '; }
static void prepare(void) {
  if (pooln < 4 * o_bytes + 4096) pooln = 4 * o_bytes + 4096;
  rs = seed * 0x9E3779B97F4A7C15ull + 1234567; make_text();
  char t[512]; snprintf(t, sizeof t, "{\"model\":\"%s\",\"messages\":[{\"role\":\"system\",\"content\":\"", o_model); vput(&j_head, t, strlen(t));
  vput(&j_mid, "\"},{\"role\":\"user\",\"content\":\"", 29); snprintf(t, sizeof t, "\"}],\"max_tokens\":256,\"temperature\":0.7,\"stream\":%s}", o_chunks ? "true,\"stream_options\":{\"include_usage\":true}" : "false"); vput(&j_tail, t, strlen(t));
  size_t fix = j_head.n + j_mid.n + j_tail.n; if (o_bytes < fix + 64) o_bytes = fix + 64; size_t txt = o_bytes - fix; prefn = (size_t)(txt * o_shared); if (prefn < 24) prefn = 24; if (prefn > txt - 24) prefn = txt - 24; sufn = txt - prefn;
  if (pooln < 4 * o_bytes) { fprintf(stderr, "body too large\n"); exit(2); }
  prefix = calloc(o_groups, sizeof *prefix); for (int g = 0; g < o_groups; g++) { prefix[g] = malloc(prefn + 1); cut(prefix[g], rnd() >> 8, prefn); char n[32]; int k = snprintf(n, 32, "Document %06d. ", g); memcpy(prefix[g], n, (size_t)k < prefn ? (size_t)k : prefn); }
  if (o_body) { FILE *f = fopen(o_body, "rb"); if (!f) { perror(o_body); exit(2); } char b[65536]; size_t k; while ((k = fread(b, 1, sizeof b, f)) > 0) vput(&filebody, b, k); fclose(f); }
  int sse = o_chunks > 0; vec hm = {0}, h = {0}, m = {0};
  hdr(&hm, ":status", "200"); hdr(&hm, "content-type", sse ? "text/event-stream; charset=utf-8" : "application/json"); hdr(&hm, "server", "uvicorn"); hdr(&hm, "date", "Sat, 21 Nov 2026 05:56:35 GMT"); hdr(&hm, "x-envoy-upstream-service-time", "12"); if (sse) hdr(&hm, "transfer-encoding", "chunked");
  vlen(&h, 1, hm.p, hm.n); vlen(&m, 3, h.p, h.n); frame5(&m_sh, m.p, m.n);
  char c[65536]; snprintf(c, sizeof c, "data: {\"id\":\"chatcmpl-0f9a3c3e2b19\",\"object\":\"chat.completion.chunk\",\"created\":1763712000,\"model\":\"%s\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" ", o_model); const char *tl = "\"},\"finish_reason\":null}]}\n\n"; size_t cl = strlen(c); while (cl + strlen(tl) < o_chunkbytes && cl < 60000) { c[cl] = 'a' + cl % 26; cl++; } if (c[cl - 1] == ' ') c[cl++] = 'a'; c[cl] = 0; strcat(c, tl); b_chunk = strlen(c); body_msg(&m_chunk, 5, c, b_chunk, 0);
  if (o_eosresp < 0) o_eosresp = sse;
  snprintf(c, sizeof c, "data: {\"id\":\"chatcmpl-0f9a3c3e2b19\",\"object\":\"chat.completion.chunk\",\"created\":1763712000,\"model\":\"%s\",\"choices\":[],\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu,\"completion_tokens\":%d,\"prompt_tokens_details\":{\"cached_tokens\":%zu}}}\n\ndata: [DONE]\n\n", o_model, o_bytes / 4, o_bytes / 4 + o_chunks, o_chunks, prefn / 4); b_last = strlen(c); body_msg(&m_last, 5, c, b_last, !o_eosresp); body_msg(&m_eos, 5, "", 0, 1);
  snprintf(c, sizeof c, "{\"id\":\"chatcmpl-0f9a3c3e2b19\",\"object\":\"chat.completion\",\"created\":1763712000,\"model\":\"%s\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"Certainly. Here is a short answer to the question that was asked.\"},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu,\"completion_tokens\":16}}", o_model, o_bytes / 4, o_bytes / 4 + 16); b_json = strlen(c); body_msg(&m_json, 5, c, b_json, !o_eosresp); free(hm.p); free(h.p); free(m.p); }

// ---------------------------------------------------------------- streams
#define QN 64
typedef struct conn conn;
typedef struct stream {
  conn *c; int32_t id; uint32_t gen; uint64_t t0, tsent; int group; struct stream *next;
  uint8_t hb[5]; int hn; uint32_t rem; int inmsg; vec mb;
  vec wire; size_t bodylen; vec body; size_t echo; // request as sent; echoed bytes of the request body
  struct { const uint8_t *p; size_t n; } q[QN]; unsigned qh, qt; size_t off; int deferred, eof;
  size_t *ends; int nends, capends; // message boundaries inside wire
  int picked, reqdone, got_sh, rdone, fin, bad; int sent, acked; size_t recho, rsent; int status, gone; uint64_t ct[QN]; unsigned cth, ctt; char why[160];
} stream;
struct conn { int fd; nghttp2_session *s; SSL *ssl; uint8_t *ob; size_t on, oo; int ww, active, need, dirty; };
static conn *cs; static stream *freel; static int ep, measuring, finished; static uint64_t done, errs, started, dropped, imm[600], tot_done; static int total_active, errprinted; static size_t bytes_up, bytes_down;
static struct { char name[64]; uint64_t n; } eps[8192]; static int neps; static uint32_t *gcount; 
static int epidx(const char *s, size_t n) { if (n > 63) n = 63; unsigned h = 2166136261u; for (size_t i = 0; i < n; i++) h = (h ^ (uint8_t)s[i]) * 16777619u; for (int i = h % 8192;; i = (i + 1) % 8192) { if (!eps[i].name[0]) { if (neps > 6000) return -1; memcpy(eps[i].name, s, n); eps[i].name[n] = 0; neps++; return i; } if (strlen(eps[i].name) == n && !memcmp(eps[i].name, s, n)) return i; } }
static void touch(conn *c) { c->dirty = 1; }
static void kick(stream *s) { if (s->deferred) { s->deferred = 0; nghttp2_session_resume_data(s->c->s, s->id); } touch(s->c); }
static int push(stream *s, const uint8_t *p, size_t n) { if (s->qt - s->qh >= QN) return 0; s->q[s->qt % QN].p = p; s->q[s->qt % QN].n = n; s->qt++; kick(s); return 1; }
static void fail(stream *s, const char *fmt, const char *a, long b) { if (s->bad) return; s->bad = 1; snprintf(s->why, sizeof s->why, fmt, a, b); }

// timers (binary heap)
typedef struct { uint64_t due; stream *s; uint32_t gen; int what; } tmr; static tmr *th; static int tn, tcap;
static void tpush(uint64_t due, stream *s, int what) { if (tn == tcap) { tcap = tcap * 2 + 256; th = realloc(th, tcap * sizeof *th); } int i = tn++; while (i && th[(i - 1) / 2].due > due) { th[i] = th[(i - 1) / 2]; i = (i - 1) / 2; } th[i] = (tmr){due, s, s->gen, what}; }
static tmr tpop(void) { tmr r = th[0], x = th[--tn]; int i = 0; for (;;) { int k = 2 * i + 1; if (k >= tn) break; if (k + 1 < tn && th[k + 1].due < th[k].due) k++; if (th[k].due >= x.due) break; th[i] = th[k]; i = k; } th[i] = x; return r; }

static void feed_request(stream *s);
static ssize_t rd(nghttp2_session *ss, int32_t id, uint8_t *buf, size_t len, uint32_t *fl, nghttp2_data_source *src, void *u) {
  stream *s = src->ptr; (void)ss; (void)id; (void)u; if (!s->reqdone && !s->fin && s->qt - s->qh < 8) feed_request(s); if (s->qh == s->qt) { if (s->eof) { *fl |= NGHTTP2_DATA_FLAG_EOF; return 0; } s->deferred = 1; return NGHTTP2_ERR_DEFERRED; }
  const uint8_t *p = s->q[s->qh % QN].p; size_t n = s->q[s->qh % QN].n, k = n - s->off; if (k > len) k = len; memcpy(buf, p + s->off, k); s->off += k; bytes_up += k; if (s->off == n) { s->off = 0; s->qh++; if (s->qh == s->qt && s->eof) *fl |= NGHTTP2_DATA_FLAG_EOF; } return k; }
static void build_request(stream *s) {
  vec *w = &s->wire; w->n = 0; s->nends = 0; s->body.n = 0; vec *b = &s->body;
  if (!o_hdronly) { if (o_body) vput(b, filebody.p, filebody.n); else { s->group = rnd() % o_groups; vput(b, j_head.p, j_head.n); vput(b, prefix[s->group], prefn); vput(b, j_mid.p, j_mid.n); vgrow(b, sufn); cut((char *)b->p + b->n, rnd() >> 8, sufn); char n[40]; int k = snprintf(n, 40, "q%llx ", (unsigned long long)rnd()); memcpy(b->p + b->n, n, (size_t)k < sufn ? (size_t)k : sufn); b->n += sufn; vput(b, j_tail.p, j_tail.n); } }
  s->bodylen = b->n; char cl[24], rid[40], tp[64]; uint64_t a = rnd(), c = rnd(), d = rnd(); snprintf(cl, 24, "%zu", b->n); snprintf(rid, 40, "%08x-%04x-4%03x-a%03x-%012llx", (unsigned)a, (unsigned)(a >> 48), (unsigned)(c & 0xfff), (unsigned)(c >> 12 & 0xfff), (unsigned long long)(c >> 16 & 0xffffffffffffull)); snprintf(tp, 64, "00-%016llx%016llx-%016llx-01", (unsigned long long)a, (unsigned long long)c, (unsigned long long)d);
  vec hm = {0}, h = {0}, m = {0}; vgrow(&hm, 2048); vgrow(&h, 2048); vgrow(&m, 2048);
  hdr(&hm, ":authority", "inference.example.com"); hdr(&hm, ":path", o_hdronly ? "/v1/models" : "/v1/chat/completions"); hdr(&hm, ":method", o_hdronly ? "GET" : "POST"); hdr(&hm, ":scheme", "http");
  if (!o_hdronly) { hdr(&hm, "content-type", "application/json"); hdr(&hm, "content-length", cl); } hdr(&hm, "accept", "*/*"); hdr(&hm, "accept-encoding", "gzip, deflate"); hdr(&hm, "user-agent", "OpenAI/Python 1.99.1"); hdr(&hm, "authorization", "Bearer sk-0123456789abcdef"); hdr(&hm, "x-forwarded-for", "10.1.2.3"); hdr(&hm, "x-forwarded-proto", "http"); hdr(&hm, "x-envoy-internal", "true"); hdr(&hm, "x-request-id", rid); hdr(&hm, "x-stainless-lang", "python"); hdr(&hm, "x-stainless-os", "Linux"); hdr(&hm, "x-stainless-arch", "x64"); hdr(&hm, "x-stainless-retry-count", "0"); hdr(&hm, "traceparent", tp);
  for (int i = 0; i < nxh; i++) hdr(&hm, xh[i][0], xh[i][1]);
  vlen(&h, 1, hm.p, hm.n); if (o_hdronly) vbool(&h, 3); vlen(&m, 2, h.p, h.n); if (o_proto) vlen(&m, 11, "\x08\x04\x10\x04", 4); frame5(w, m.p, m.n); free(hm.p); free(h.p); free(m.p);
  #define END() do { if (s->nends == s->capends) { s->capends = s->capends * 2 + 8; s->ends = realloc(s->ends, s->capends * sizeof *s->ends); } s->ends[s->nends++] = w->n; } while (0)
  END(); if (o_hdronly) return;
  size_t ck = o_reqchunk ? o_reqchunk : b->n, p = 0; do { size_t k = b->n - p < ck ? b->n - p : ck; body_msg(w, 4, b->p + p, k, p + k == b->n && !o_eosreq); p += k; END(); } while (p < b->n); if (o_eosreq) { body_msg(w, 4, "", 0, 1); END(); } }
static void feed_request(stream *s) { while (s->sent < s->nends && s->qt - s->qh < QN) { size_t a = s->sent ? s->ends[s->sent - 1] : 0; push(s, s->wire.p + a, s->ends[s->sent] - a); s->sent++; } }
#define NV(n, v) {(uint8_t *)n, (uint8_t *)v, sizeof(n) - 1, sizeof(v) - 1, 0}
static uint32_t gens;
static void start(conn *c, uint64_t t) {
  stream *s = freel; if (s) { freel = s->next; vec a = s->wire, b = s->body, m = s->mb; size_t *e = s->ends; int ce = s->capends; memset(s, 0, sizeof *s); s->wire = a; s->body = b; s->mb = m; s->ends = e; s->capends = ce; } else s = calloc(1, sizeof *s);
  s->c = c; s->gen = ++gens; s->status = -1; s->deferred = 0; s->mb.n = 0; build_request(s); s->t0 = t; s->tsent = now(); if (!t) s->t0 = s->tsent; else if (measuring) hadd(&h_late, s->tsent > t ? s->tsent - t : 0);
  char tp[64]; snprintf(tp, 64, "00-%016llx%016llx-%016llx-01", (unsigned long long)rnd(), (unsigned long long)rnd(), (unsigned long long)rnd());
  nghttp2_nv nv[] = {NV(":method", "POST"), NV(":scheme", "http"), NV(":path", "/envoy.service.ext_proc.v3.ExternalProcessor/Process"), NV(":authority", "epp.default.svc:9002"), NV("te", "trailers"), NV("content-type", "application/grpc"), NV("x-envoy-internal", "true"), NV("x-forwarded-for", "10.0.0.12"), {(uint8_t *)"traceparent", (uint8_t *)tp, 11, strlen(tp), 0}};
  nghttp2_data_provider dp; dp.source.ptr = s; dp.read_callback = rd; feed_request(s); s->id = nghttp2_submit_request(c->s, NULL, nv, 9, &dp, s); if (s->id < 0) { fprintf(stderr, "submit: %s\n", nghttp2_strerror(s->id)); exit(1); } c->active++; total_active++; started++; touch(c); }
static void finish(stream *s) { if (s->fin) return; s->fin = 1; if (o_reset) { nghttp2_submit_rst_stream(s->c->s, 0, s->id, NGHTTP2_INTERNAL_ERROR); touch(s->c); } else { s->eof = 1; kick(s); } }
static int resp_total(void) { return o_chunks ? o_chunks + (o_eosresp ? 1 : 0) : 1 + (o_eosresp ? 1 : 0); }
static int send_chunk(stream *s, uint64_t t) { // s->sent counts response_body messages here
  vec *m; size_t b; int i = s->sent; if (!o_chunks) { m = i ? &m_eos : &m_json; b = i ? 0 : b_json; } else if (i < o_chunks - 1) { m = &m_chunk; b = b_chunk; } else if (i == o_chunks - 1) { m = &m_last; b = b_last; } else { m = &m_eos; b = 0; }
  if (!push(s, m->p, m->n)) return 0; s->rsent += b; s->sent++; if (s->ctt - s->cth < QN) s->ct[s->ctt++ % QN] = t; return 1; }
static void pump(stream *s) { if (s->bad || s->fin || o_interval > 0) return; uint64_t t = now(); while (s->sent < resp_total() && (!o_chunks || s->sent - s->acked < o_window)) if (!send_chunk(s, t)) break; }
static void begin_response(stream *s) { s->sent = 0; push(s, m_sh.p, m_sh.n); if (o_interval > 0 && o_chunks) { uint64_t t = now(); send_chunk(s, t); tpush(t + (uint64_t)(o_interval * 1e6), s, 1); } else pump(s); }
static void request_done(stream *s) { s->reqdone = 1; if (s->echo != s->bodylen && !s->bad) fail(s, "request echo %s length %ld", "", s->echo); if (o_pickonly) { finish(s); return; } if (o_upstream > 0) tpush(now() + (uint64_t)(o_upstream * 1e6), s, 2); else begin_response(s); }

// ---- ProcessingResponse decoder (only what is needed)
typedef struct { const uint8_t *p, *e; } cur;
static uint64_t gv(cur *c) { uint64_t v = 0; int sh = 0; while (c->p < c->e) { uint8_t b = *c->p++; v |= (uint64_t)(b & 127) << sh; if (b < 128) break; sh += 7; } return v; }
static int nf(cur *c, int *f, cur *sub, uint64_t *v) { if (c->p >= c->e) return 0; uint64_t t = gv(c); *f = t >> 3; *v = 0; sub->p = sub->e = NULL; switch (t & 7) { case 0: *v = gv(c); break; case 2: { uint64_t n = gv(c); if (n > (uint64_t)(c->e - c->p)) { c->p = c->e; return 0; } sub->p = c->p; sub->e = c->p + n; c->p += n; break; } case 5: c->p += 4; break; case 1: c->p += 8; break; default: c->p = c->e; return 0; } return 1; }
static void msg(stream *s, const uint8_t *p, size_t n) {
  cur c = {p, p + n}, b, x, y, z, k, w; int f, g, h, i, j; uint64_t v; 
  while (nf(&c, &f, &b, &v)) {
    if (f == 7) { int code = 0; char txt[100] = ""; while (nf(&b, &g, &x, &v)) { if (g == 1) while (nf(&x, &h, &y, &v)) if (h == 1) code = v; if (g == 3) { size_t l = x.e - x.p; if (l > 99) l = 99; memcpy(txt, x.p, l); txt[l] = 0; } } if (measuring && code >= 0 && code < 600) imm[code]++; fail(s, "immediate response '%s' %ld", txt, code); finish(s); continue; }
    if (f == 5 || f == 6 || f == 8 || f < 1 || f > 8) continue;
    const char *dest = NULL; size_t dl = 0, bl = 0; int eos = 0; const uint8_t *bp = NULL; int streamed = 0;
    while (nf(&b, &g, &x, &v)) if (g == 1) while (nf(&x, &h, &y, &v)) {
      if (h == 2) { while (nf(&y, &i, &z, &v)) if (i == 1) while (nf(&z, &j, &k, &v)) if (j == 1) { const uint8_t *kp = NULL, *vp = NULL; size_t kn = 0, vn = 0; int q; while (nf(&k, &q, &w, &v)) { if (q == 1) { kp = w.p; kn = w.e - w.p; } else if ((q == 3 || q == 2) && w.e > w.p) { vp = w.p; vn = w.e - w.p; } } if (kn == 30 && !memcmp(kp, "x-gateway-destination-endpoint", 30)) { dest = (const char *)vp; dl = vn; } } }
      else if (h == 3) while (nf(&y, &i, &z, &v)) if (i == 3) { streamed = 1; while (nf(&z, &j, &k, &v)) { if (j == 1) { bp = k.p; bl = k.e - k.p; } else if (j == 2) eos = v != 0; } } }
    uint64_t t;
    switch (f) {
      case 1: if (s->picked) { fail(s, "second request_headers response%s %ld", "", 0); break; } s->picked = 1; t = now(); if (measuring) { hadd(&h_pick, t - s->t0); if (dl) { int e = epidx(dest, dl); if (e >= 0) { eps[e].n++; if (gcount && e < 8192) gcount[s->group * 8192 + e]++; } } } if (!dl) fail(s, "no destination header%s %ld", "", 0); if (o_hdronly) request_done(s); break;
      case 3: if (!s->picked) fail(s, "request_body response before headers%s %ld", "", 0); if (!streamed) fail(s, "request_body response without streamed_response%s %ld", "", 0); if (o_verify && (s->echo + bl > s->body.n || memcmp(s->body.p + s->echo, bp, bl))) fail(s, "request body differs at %s%ld", "", s->echo); s->echo += bl; if (eos && !s->reqdone) request_done(s); break;
      case 2: s->got_sh = 1; break;
      case 4: s->acked++; s->recho += bl; if (s->cth != s->ctt) { uint64_t q = s->ct[s->cth++ % QN]; if (measuring) hadd(&h_chunk, now() - q); } if (eos) { s->rdone = 1; if (s->recho != s->rsent) fail(s, "response echo%s length %ld", "", s->recho); finish(s); } else pump(s); break; } } }
static int on_data(nghttp2_session *ss, uint8_t f, int32_t id, const uint8_t *d, size_t n, void *u) { (void)f; (void)u; bytes_down += n; stream *s = nghttp2_session_get_stream_user_data(ss, id); if (!s) return 0;
  while (n) { if (s->inmsg) { if (s->mb.n == 0 && n >= s->rem) { msg(s, d, s->rem); d += s->rem; n -= s->rem; s->inmsg = 0; continue; } size_t k = n < s->rem - s->mb.n ? n : s->rem - s->mb.n; vput(&s->mb, d, k); d += k; n -= k; if (s->mb.n == s->rem) { s->inmsg = 0; msg(s, s->mb.p, s->mb.n); s->mb.n = 0; } }
    else { s->hb[s->hn++] = *d++; n--; if (s->hn == 5) { s->hn = 0; s->rem = (uint32_t)s->hb[1] << 24 | s->hb[2] << 16 | s->hb[3] << 8 | s->hb[4]; s->mb.n = 0; if (s->rem) s->inmsg = 1; else msg(s, d, 0); } } }
  return 0; }
static int on_hdr(nghttp2_session *ss, const nghttp2_frame *f, const uint8_t *n, size_t nl, const uint8_t *v, size_t vl, uint8_t fl, void *u) { (void)fl; (void)u; stream *s = nghttp2_session_get_stream_user_data(ss, f->hd.stream_id); if (!s) return 0; if (nl == 11 && !memcmp(n, "grpc-status", 11)) { s->status = atoi((char *)v); } else if (nl == 12 && !memcmp(n, "grpc-message", 12) && !s->bad) snprintf(s->why, sizeof s->why, "grpc-message %.*s", (int)(vl > 120 ? 120 : vl), v); return 0; }
static int on_close(nghttp2_session *ss, int32_t id, uint32_t ec, void *u) { (void)u; stream *s = nghttp2_session_get_stream_user_data(ss, id); if (!s) return 0; conn *c = s->c; c->active--; total_active--; if (!o_rate) { c->need++; }
  int ok = !s->bad && s->picked && s->reqdone && (o_pickonly || s->rdone) && (o_reset ? 1 : s->status == 0 && ec == 0); tot_done++;
  if (ok) { if (measuring) { done++; hadd(&h_all, now() - s->t0); } } else { if (measuring) errs++; if (errprinted < 6) { errprinted++; fprintf(stderr, "error: %s (picked=%d reqdone=%d rdone=%d sent=%d acked=%d grpc-status=%d h2-error=%u)\n", s->why[0] ? s->why : "stream ended early", s->picked, s->reqdone, s->rdone, s->sent, s->acked, s->status, ec); } }
  if (o_requests && tot_done >= (uint64_t)o_requests) finished = 1; s->gen = 0; s->next = freel; freel = s; touch(c); return 0; }
// ---------------------------------------------------------------- io
static SSL_CTX *ctx;
#define OB (1 << 20)
static void upd(conn *c) { int w = c->oo < c->on; if (w != c->ww) { c->ww = w; struct epoll_event e = {.events = EPOLLIN | (w ? EPOLLOUT : 0), .data.ptr = c}; epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e); } }
static ssize_t wr(conn *c, const void *b, size_t n) { if (!c->ssl) return write(c->fd, b, n); int r = SSL_write(c->ssl, b, n); if (r > 0) return r; int e = SSL_get_error(c->ssl, r); errno = e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE ? EAGAIN : EIO; return -1; }
static ssize_t rdx(conn *c, void *b, size_t n) { if (!c->ssl) return read(c->fd, b, n); int r = SSL_read(c->ssl, b, n); if (r > 0) return r; int e = SSL_get_error(c->ssl, r); if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE) { errno = EAGAIN; return -1; } return 0; }
static void flush(conn *c) { c->dirty = 0; for (;;) { while (c->oo < c->on) { ssize_t r = wr(c, c->ob + c->oo, c->on - c->oo); if (r < 0) { if (errno == EAGAIN) { upd(c); return; } perror("write"); exit(1); } c->oo += r; } c->oo = c->on = 0;
  while (c->on < OB - 70000) { const uint8_t *d; ssize_t n = nghttp2_session_mem_send(c->s, &d); if (n < 0) { fprintf(stderr, "send: %s\n", nghttp2_strerror(n)); exit(1); } if (!n) break; memcpy(c->ob + c->on, d, n); c->on += n; } if (!c->on) { upd(c); return; } } }
static double pcpu(clockid_t id) { struct timespec t; if (clock_gettime(id, &t)) return 0; return t.tv_sec + t.tv_nsec / 1e9; }
static void mem(int pid, long *rss, long *hwm) { char p[64], l[256]; *rss = *hwm = 0; sprintf(p, "/proc/%d/status", pid); FILE *f = fopen(p, "r"); if (!f) return; while (fgets(l, sizeof l, f)) { sscanf(l, "VmRSS: %ld", rss); sscanf(l, "VmHWM: %ld", hwm); } fclose(f); }
static double busy(void) { FILE *f = fopen("/proc/stat", "r"); double u = 0, n = 0, y = 0, id, io, q = 0, sq = 0, st = 0; if (!f) return 0; if (fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &u, &n, &y, &id, &io, &q, &sq, &st) != 8) u = 0; fclose(f); return (u + n + y + q + sq) / sysconf(_SC_CLK_TCK); }
static int ecmp(const void *a, const void *b) { uint64_t x = eps[*(int *)a].n, y = eps[*(int *)b].n; return x < y ? 1 : x > y ? -1 : 0; }
int main(int ac, char **av) {
  static struct option lo[] = {{"addr",1,0,1},{"tls",0,0,2},{"insecure",0,0,3},{"connections",1,0,4},{"streams",1,0,5},{"rate",1,0,6},{"poisson",0,0,7},{"max-active",1,0,8},{"duration",1,0,9},{"warmup",1,0,10},{"requests",1,0,11},{"body",1,0,12},{"body-bytes",1,0,13},{"shared-prefix",1,0,14},{"groups",1,0,15},{"model",1,0,16},{"seed",1,0,17},{"req-chunk",1,0,18},{"eos-empty",1,0,19},{"header-only",0,0,20},{"header",1,0,21},{"no-protocol-config",0,0,22},{"pick-only",0,0,23},{"response-chunks",1,0,24},{"chunk-bytes",1,0,25},{"chunk-interval-ms",1,0,26},{"window",1,0,27},{"upstream-ms",1,0,28},{"reset",0,0,29},{"verify",0,0,30},{"server-pid",1,0,31},{"label",1,0,32},{"json",0,0,33},{"dist",1,0,34},{"help",0,0,'h'},{0}};
  int o; while ((o = getopt_long(ac, av, "h", lo, 0)) != -1) switch (o) {
    case 1: o_addr = optarg; break; case 2: o_tls = 1; break; case 3: o_tls = 0; break; case 4: o_conns = atoi(optarg); break; case 5: o_streams = atoi(optarg); break; case 6: o_rate = atof(optarg); break; case 7: o_poisson = 1; break; case 8: o_maxactive = atoi(optarg); break; case 9: o_dur = atof(optarg); break; case 10: o_warm = atof(optarg); break; case 11: o_requests = atol(optarg); break; case 12: o_body = optarg; break; case 13: o_bytes = atol(optarg); break; case 14: o_shared = atof(optarg); break; case 15: o_groups = atoi(optarg); break; case 16: o_model = optarg; break; case 17: seed = atol(optarg); break; case 18: o_reqchunk = atol(optarg); break;
    case 19: o_eosreq = !strcmp(optarg, "req") || !strcmp(optarg, "both"); o_eosresp = !strcmp(optarg, "resp") || !strcmp(optarg, "both"); break; case 20: o_hdronly = 1; break; case 21: { char *q = strchr(optarg, ':'); if (!q || nxh == 32) { fputs(USAGE, stderr); return 2; } *q++ = 0; while (*q == ' ') q++; xh[nxh][0] = optarg; xh[nxh++][1] = q; break; } case 22: o_proto = 0; break; case 23: o_pickonly = 1; break; case 24: o_chunks = atoi(optarg); break; case 25: o_chunkbytes = atol(optarg); break; case 26: o_interval = atof(optarg); break; case 27: o_window = atoi(optarg); break; case 28: o_upstream = atof(optarg); break; case 29: o_reset = 1; break; case 30: o_verify = 1; break; case 31: o_pid = atoi(optarg); break; case 32: o_label = optarg; break; case 33: o_json = 1; break; case 34: o_dist = atoi(optarg); break;
    default: fputs(USAGE, o == 'h' ? stdout : stderr); return o == 'h' ? 0 : 2; }
  if (o_window > QN - 4) o_window = QN - 4; if (o_groups < 1) o_groups = 1; prepare(); if (o_groups <= 512) gcount = calloc((size_t)o_groups * 8192, 4);
  char host[128]; snprintf(host, sizeof host, "%s", o_addr); char *pp = strrchr(host, ':'); if (!pp) { fputs(USAGE, stderr); return 2; } *pp++ = 0; struct addrinfo hint = {.ai_socktype = SOCK_STREAM}, *ai; if (getaddrinfo(host, pp, &hint, &ai)) { fprintf(stderr, "bad address\n"); return 2; }
  ep = epoll_create1(0); if (o_tls) { ctx = SSL_CTX_new(TLS_client_method()); SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER); SSL_CTX_set_alpn_protos(ctx, (uint8_t *)"\x02h2", 3); }
  nghttp2_session_callbacks *cb; nghttp2_session_callbacks_new(&cb); nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data); nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close); nghttp2_session_callbacks_set_on_header_callback(cb, on_hdr);
  cs = calloc(o_conns, sizeof *cs); for (int i = 0; i < o_conns; i++) { conn *c = &cs[i]; c->fd = socket(ai->ai_family, SOCK_STREAM, 0); if (connect(c->fd, ai->ai_addr, ai->ai_addrlen)) { perror("connect"); return 1; } int one = 1; setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); if (o_tls) { c->ssl = SSL_new(ctx); SSL_set_fd(c->ssl, c->fd); if (SSL_connect(c->ssl) != 1) { fprintf(stderr, "TLS handshake failed\n"); return 1; } } fcntl(c->fd, F_SETFL, O_NONBLOCK); c->ob = malloc(OB);
    nghttp2_option *op; nghttp2_option_new(&op); nghttp2_option_set_peer_max_concurrent_streams(op, 100000); nghttp2_session_client_new2(&c->s, cb, c, op); nghttp2_settings_entry iv[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 24}, {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}}; nghttp2_submit_settings(c->s, 0, iv, 2); nghttp2_session_set_local_window_size(c->s, 0, 0, 1 << 26); struct epoll_event e = {.events = EPOLLIN, .data.ptr = c}; epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &e); flush(c); }
  clockid_t sc = CLOCK_MONOTONIC; if (o_pid && clock_getcpuclockid(o_pid, &sc)) { fprintf(stderr, "no process %d\n", o_pid); return 2; } long rss0 = 0, hwm = 0, rss1 = 0; if (o_pid) mem(o_pid, &rss0, &hwm);
  if (o_requests) o_warm = 0; uint64_t T0 = now(), tm = T0 + (uint64_t)(o_warm * 1e9), te = tm + (uint64_t)(o_dur * 1e9), ts = 0, tend = 0; double c0 = 0, c1 = 0, k0 = 0, k1 = 0, b0 = 0, b1 = 0, next = 0; int rr = 0; size_t bu = 0, bd = 0; if (!o_rate) for (int i = 0; i < o_streams; i++) cs[i % o_conns].need++;
  static uint8_t buf[1 << 18]; struct epoll_event ev[256]; uint64_t lastp = now(); size_t lastb = 0;
  for (;;) { uint64_t t = now(); if (bytes_down != lastb || !total_active) { lastb = bytes_down; lastp = t; } else if (t - lastp > 20000000000ull) { fprintf(stderr, "stalled: nothing received for 20 s, %d streams in flight\n", total_active); errs++; finished = 2; }
    if (!measuring && !ts && t >= tm) { measuring = 1; ts = t; c0 = o_pid ? pcpu(sc) : 0; k0 = pcpu(CLOCK_PROCESS_CPUTIME_ID); b0 = busy(); bu = bytes_up; bd = bytes_down; }
    if (measuring && (finished || (!o_requests && t >= te))) { measuring = 0; tend = t; c1 = o_pid ? pcpu(sc) : 0; k1 = pcpu(CLOCK_PROCESS_CPUTIME_ID); b1 = busy(); break; }
    int64_t to = 5000000; // ns
    if (o_rate) { while (T0 + (uint64_t)(next * 1e9) <= t) { conn *c = &cs[rr++ % o_conns]; if (total_active < o_maxactive) start(c, T0 + (uint64_t)(next * 1e9)); else if (measuring) dropped++; next += o_poisson ? -log(1 - rnd01()) / o_rate : 1 / o_rate; } int64_t d = (int64_t)(T0 + (uint64_t)(next * 1e9)) - (int64_t)t; if (d < to) to = d < 0 ? 0 : d; }
    else for (int i = 0; i < o_conns; i++) while (cs[i].need) { cs[i].need--; if (!o_requests || started < (uint64_t)o_requests) start(&cs[i], 0); }
    while (tn && th[0].due <= t) { tmr x = tpop(); stream *s = x.s; if (s->gen != x.gen || s->bad || s->fin) continue; if (x.what == 2) begin_response(s); else { send_chunk(s, t); if (s->sent < resp_total()) tpush(x.due + (uint64_t)(o_interval * 1e6) > t ? x.due + (uint64_t)(o_interval * 1e6) : t, s, 1); } }
    if (tn && (int64_t)(th[0].due - t) < to) to = (int64_t)(th[0].due - t) < 0 ? 0 : (int64_t)(th[0].due - t);
    for (int i = 0; i < o_conns; i++) if (cs[i].dirty) flush(&cs[i]);
    struct timespec tw = {0, to}; int n = epoll_pwait2(ep, ev, 256, &tw, NULL);
    for (int i = 0; i < n; i++) { conn *c = ev[i].data.ptr; if (ev[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) { int lim = 4; do { ssize_t r = rdx(c, buf, sizeof buf); if (r == 0) { fprintf(stderr, "connection closed by server\n"); errs++; finished = 2; break; } if (r < 0) { if (errno == EAGAIN) break; perror("read"); errs++; finished = 2; break; } ssize_t k = nghttp2_session_mem_recv(c->s, buf, r); if (k < 0) { fprintf(stderr, "recv: %s\n", nghttp2_strerror(k)); return 1; } if (!c->ssl && r < (ssize_t)sizeof buf) break; } while (--lim); }
      if (!o_rate) while (c->need) { c->need--; if (!o_requests || started < (uint64_t)o_requests) start(c, 0); } flush(c); }
    if (finished == 2) { tend = now(); if (!ts) ts = tend; c1 = o_pid ? pcpu(sc) : 0; k1 = pcpu(CLOCK_PROCESS_CPUTIME_ID); b1 = busy(); break; } }
  double el = (tend - ts) / 1e9; if (el <= 0) el = 1e-9; if (o_pid) mem(o_pid, &rss1, &hwm);
  int idx[8192], ni = 0; uint64_t tot = 0; for (int i = 0; i < 8192; i++) if (eps[i].n) { idx[ni++] = i; tot += eps[i].n; } qsort(idx, ni, sizeof *idx, ecmp);
  double aff = 0; int ag = 0; if (gcount && o_shared > 0) for (int g = 0; g < o_groups; g++) { uint64_t mx = 0, sm = 0; for (int i = 0; i < 8192; i++) { uint32_t x = gcount[g * 8192 + i]; sm += x; if (x > mx) mx = x; } if (sm) { aff += (double)mx / sm; ag++; } }
  double per = done ? (c1 - c0) / done * 1e6 : 0;
  char dist[4096] = ""; size_t dn = 0; for (int i = 0; i < ni && i < o_dist; i++) dn += snprintf(dist + dn, sizeof dist - dn, "%s\"%s\":%llu", i ? "," : "", eps[idx[i]].name, (unsigned long long)eps[idx[i]].n); char im[512] = ""; size_t in = 0; for (int i = 0; i < 600; i++) if (imm[i] && in < 400) in += snprintf(im + in, sizeof im - in, "%s\"%d\":%llu", in ? "," : "", i, (unsigned long long)imm[i]);
  if (!o_json) { printf("%s  %.0f s measured, %d connection(s), %s\n  %.1f requests/s   done %llu   errors %llu   dropped %llu   in flight at end %d\n  pick  us  p50 %.0f  p95 %.0f  p99 %.0f  p99.9 %.0f  max %.0f\n  whole us  p50 %.0f  p95 %.0f  p99 %.0f  p99.9 %.0f  max %.0f\n", o_label, el, o_conns, o_tls ? "TLS" : "clear text", done / el, (unsigned long long)done, (unsigned long long)errs, (unsigned long long)dropped, total_active, hq(&h_pick, .5), hq(&h_pick, .95), hq(&h_pick, .99), hq(&h_pick, .999), h_pick.max / 1e3, hq(&h_all, .5), hq(&h_all, .95), hq(&h_all, .99), hq(&h_all, .999), h_all.max / 1e3);
    if (o_chunks) printf("  echo  us  p50 %.0f  p95 %.0f  p99 %.0f  p99.9 %.0f  max %.0f   (%.0f chunks/s)\n", hq(&h_chunk, .5), hq(&h_chunk, .95), hq(&h_chunk, .99), hq(&h_chunk, .999), h_chunk.max / 1e3, h_chunk.n / el);
    if (o_rate) printf("  start lateness us p50 %.0f p99 %.0f max %.0f\n", hq(&h_late, .5), hq(&h_late, .99), h_late.max / 1e3);
    if (o_pid) printf("  server cpu %.3f s = %.3f cores, %.1f us/request; RSS MiB %.1f -> %.1f (peak %.1f)\n", c1 - c0, (c1 - c0) / el, per, rss0 / 1024., rss1 / 1024., hwm / 1024.);
    printf("  client cpu %.3f cores, whole machine %.2f cores, up %.1f MB/s, down %.1f MB/s\n  endpoints picked: %d; busiest %s\n", (k1 - k0) / el, (b1 - b0) / el, (bytes_up - bu) / el / 1e6, (bytes_down - bd) / el / 1e6, ni, dist); if (ag) printf("  prefix affinity (share of a group's requests on its most used endpoint): %.3f\n", aff / ag); if (im[0]) printf("  immediate responses %s\n", im); }
  else printf("{\"label\":\"%s\",\"secs\":%.2f,\"rps\":%.2f,\"done\":%llu,\"errors\":%llu,\"dropped\":%llu,\"inflight\":%d,\"pick_us\":{\"p50\":%.0f,\"p95\":%.0f,\"p99\":%.0f,\"p999\":%.0f,\"max\":%.0f,\"mean\":%.0f},\"all_us\":{\"p50\":%.0f,\"p95\":%.0f,\"p99\":%.0f,\"p999\":%.0f,\"max\":%.0f},\"echo_us\":{\"p50\":%.0f,\"p95\":%.0f,\"p99\":%.0f,\"max\":%.0f},\"chunks_s\":%.0f,\"late_us\":{\"p50\":%.0f,\"p99\":%.0f},\"srv_cores\":%.4f,\"srv_us_req\":%.2f,\"rss0_mib\":%.1f,\"rss_mib\":%.1f,\"peak_mib\":%.1f,\"cli_cores\":%.3f,\"machine_cores\":%.3f,\"up_MBs\":%.2f,\"down_MBs\":%.2f,\"eps\":%d,\"maxshare\":%.4f,\"affinity\":%.4f,\"dist\":{%s},\"immediate\":{%s}}\n", o_label, el, done / el, (unsigned long long)done, (unsigned long long)errs, (unsigned long long)dropped, total_active, hq(&h_pick, .5), hq(&h_pick, .95), hq(&h_pick, .99), hq(&h_pick, .999), h_pick.max / 1e3, h_pick.n ? h_pick.sum / h_pick.n / 1e3 : 0, hq(&h_all, .5), hq(&h_all, .95), hq(&h_all, .99), hq(&h_all, .999), h_all.max / 1e3, hq(&h_chunk, .5), hq(&h_chunk, .95), hq(&h_chunk, .99), h_chunk.max / 1e3, h_chunk.n / el, hq(&h_late, .5), hq(&h_late, .99), (c1 - c0) / el, per, rss0 / 1024., rss1 / 1024., hwm / 1024., (k1 - k0) / el, (b1 - b0) / el, (bytes_up - bu) / el / 1e6, (bytes_down - bd) / el / 1e6, ni, tot ? (double)eps[idx[0]].n / tot : 0, ag ? aff / ag : 0, dist, im);
  fflush(stdout); _exit(finished == 2 ? 1 : 0); }
