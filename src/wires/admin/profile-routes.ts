import type { Hono } from "hono";

/** What can be profiled: where CPU time goes, and what was allocated and stays. */
export type ProfileKind = "profile" | "heap";

/** Takes profiles of this process. */
export interface Profiler {
  /**
   * Samples for `seconds` (or until `signal` is aborted), one profile at a time.
   * @returns a gzip-compressed pprof `Profile`; "busy" while another is taken, "unavailable" where the runtime has no profiler
   */
  take(
    kind: ProfileKind,
    seconds: number,
    signal: AbortSignal,
  ): Promise<Uint8Array<ArrayBuffer> | "busy" | "unavailable">;
}

/** As many as Go's own handler takes without being asked, and the most. */
const DEFAULT_SECONDS: Readonly<Record<ProfileKind, number>> = { profile: 30, heap: 10 };
const MAX_SECONDS = 60;

/** Of the profiles that Go programs offer, those that this runtime has nothing for (epp-protocol 15.3). */
const GO_ONLY = ["goroutine", "allocs", "threadcreate", "block", "mutex"] as const;

const INDEX = `profiles of this process, in pprof format; seconds is 1 to ${MAX_SECONDS}

/debug/pprof/profile?seconds=${DEFAULT_SECONDS.profile}  where CPU time goes
/debug/pprof/heap?seconds=${DEFAULT_SECONDS.heap}     what is allocated on V8's heap within that time and still there at its end
`;

/** Adds `/debug/pprof/...` to the admin pages. */
export function profileRoutes(app: Hono, profiler: Profiler): void {
  app.get("/debug/pprof/", (context) => context.text(INDEX));
  for (const kind of ["profile", "heap"] as const)
    app.get(`/debug/pprof/${kind}`, async (context) => {
      const text = context.req.query("seconds") ?? String(DEFAULT_SECONDS[kind]);
      const seconds = /^\d{1,3}$/.test(text) ? Number(text) : 0;
      if (seconds < 1 || seconds > MAX_SECONDS)
        return context.text(`seconds is a whole number from 1 to ${MAX_SECONDS}\n`, 400);
      const profile = await profiler.take(kind, seconds, context.req.raw.signal);
      if (profile === "busy") return context.text("another profile is being taken; try again when it is done\n", 409);
      if (profile === "unavailable") return context.text("this Node.js has no inspector, hence no profiles\n", 501);
      return context.body(profile, 200, {
        "content-type": "application/octet-stream",
        "content-disposition": `attachment; filename="${kind}.pb.gz"`,
      });
    });
  for (const name of GO_ONLY)
    app.get(`/debug/pprof/${name}`, (context) =>
      context.text(`there is no ${name} profile: it is one of Go programs; see /debug/pprof/\n`, 501),
    );
}
