import { expect, it } from "vitest";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import { type AskPrometheus, prometheusHistory } from "./history.ts";
import { HISTORY_FIGURES, HISTORY_SPANS } from "./routes.ts";

const END = 1_800_000_007;
const matrix = (result: unknown): string =>
  JSON.stringify({ status: "success", data: { resultType: "matrix", result } });

function setUp(answer: (query: URLSearchParams) => string) {
  const clock = new VirtualClock();
  const asked: { url: URL; headers: Readonly<Record<string, string>> }[] = [];
  const send: AskPrometheus = (url, headers) => {
    asked.push({ url: new URL(url), headers });
    return Promise.resolve(answer(new URL(url).searchParams));
  };
  return { clock, asked, history: prometheusHistory("http://me:p%40ss@prom:9090/base/", "--prometheus", clock, send) };
}

it("asks its own queries only, with the right times, and places the values", async () => {
  const { asked, history } = setUp((query) =>
    matrix([
      {
        metric: { outcome: "complete" },
        values: [
          [Number(query.get("start")) + 15, "1.23456"],
          [Number(query.get("end")), "NaN"],
          [5, "1"],
        ],
      },
    ]),
  );
  const feed = await history.read("requests", "1h", END);
  expect(feed).toMatchObject({ figure: "requests", step: 15, unit: "1/s", from: Math.floor(END / 15) * 15 - 3600 });
  expect(feed.series).toHaveLength(1);
  expect(feed.series[0]!.name).toBe("complete");
  expect(feed.series[0]!.values).toHaveLength(241);
  expect(feed.series[0]!.values.slice(0, 3)).toEqual([null, 1.235, null]);
  expect(feed.series[0]!.values.at(-1)).toBeNull();
  const { url, headers } = asked[0]!;
  expect(url.origin + url.pathname).toBe("http://prom:9090/base/api/v1/query_range");
  expect([url.username, url.password]).toEqual(["", ""]);
  expect(headers).toEqual({ authorization: `Basic ${Buffer.from("me:p@ss").toString("base64")}` });
  expect(url.searchParams.get("query")).toBe("sum by (outcome) (rate(sluice_exchanges_total[60s]))");
});

it("has a query for each figure, and at most 400 values in each span", async () => {
  const { history } = setUp(() => matrix([]));
  for (const figure of HISTORY_FIGURES)
    for (const span of HISTORY_SPANS) {
      const { step, from } = await history.read(figure, span, END);
      expect((END - from) / step).toBeLessThan(400);
    }
});

it("keeps an answer for 10 s, but no failure", async () => {
  let fails = true;
  const { clock, asked, history } = setUp(() => {
    if (fails) throw new Error("connect http://me:p%40ss@prom failed");
    return matrix([]);
  });
  await expect(history.read("inFlight", "1h", undefined)).rejects.toThrow(/^Prometheus gave no usable answer$/);
  fails = false;
  await history.read("inFlight", "1h", undefined);
  await history.read("inFlight", "1h", undefined);
  expect(asked).toHaveLength(2);
  clock.advance(10_001);
  await history.read("inFlight", "1h", undefined);
  expect(asked).toHaveLength(3);
});

it("takes 8 questions at a time", async () => {
  const open: (() => void)[] = [];
  const clock = new VirtualClock();
  const send: AskPrometheus = () => new Promise((resolve) => open.push(() => resolve(matrix([]))));
  const history = prometheusHistory("http://prom:9090", "--prometheus", clock, send);
  const eight = Array.from({ length: 8 }, (_, n) => history.read("inFlight", "1h", END + n * 15));
  await expect(history.read("waiting", "1h", END)).rejects.toThrow("too many questions");
  for (const answer of open) answer();
  await Promise.all(eight);
  const later = history.read("waiting", "1h", END);
  open.at(-1)!();
  await later;
});

it("ends the other queries of a figure with the first one that fails", async () => {
  const signals: AbortSignal[] = [];
  const send: AskPrometheus = (_url, _headers, over) => {
    signals.push(over);
    return signals.length === 1 ? Promise.reject(new Error("broken")) : new Promise(() => {});
  };
  const history = prometheusHistory("http://prom:9090", "--prometheus", new VirtualClock(), send);
  await expect(history.read("ttft", "1h", END)).rejects.toThrow(/^Prometheus gave no usable answer$/);
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, true, true]);
});

it("refuses an address whose password has a bare percent sign", () => {
  expect(() => prometheusHistory("http://u:100%@prom", "--prometheus", new VirtualClock())).toThrow("%25");
});

it.each(["prom:9090", "ftp://prom", "http://prom/?query=up", ""])("refuses the address %j", (address) => {
  expect(() => prometheusHistory(address, "--prometheus", new VirtualClock())).toThrow(
    "--prometheus takes the address",
  );
});

it.each(["<html>", '{"status":"error"}', '{"status":"success","data":{"resultType":"vector","result":[]}}'])(
  "says when the answer %j is not one of a Prometheus",
  async (text) => {
    const { history } = setUp(() => text);
    await expect(history.read("inFlight", "1h", END)).rejects.toThrow("does not answer like a Prometheus");
  },
);
