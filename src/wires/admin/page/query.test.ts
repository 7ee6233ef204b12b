import { expect, it } from "vitest";
import { Query, QueryError } from "./query.ts";

const url = (query: string): string => `http://127.0.0.1:1/debug/feed/x?${query}`;

it.each([
  ["an unknown name", "other=1", "is unknown; this path takes a, many"],
  ["a name twice", "a=1&a=2", "is given too often"],
  ["a name that may repeat, too often", Array(17).fill("many=1").join("&"), "is given too often"],
  ["a long text", `a=${"x".repeat(513)}`, "is longer than 512 characters"],
])("refuses %s", (_, query, problem) => {
  expect(() => new Query(url(query), ["a", "many*"])).toThrow(QueryError);
  expect(() => new Query(url(query), ["a", "many*"])).toThrow(problem);
});

it("reads numbers, words and lists, and refuses others", () => {
  const query = new Query(url("n=12&bad=1.5&word=up&list=up,down&label=a%3Db&label=c"), [
    ...["n", "bad", "word", "list", "label*", "absent"],
  ]);
  expect(query.whole("n", 1, 12, 0)).toBe(12);
  expect(() => query.whole("n", 1, 11, 0)).toThrow("n is a whole number from 1 to 11");
  expect(() => query.whole("bad", 0, 9, 0)).toThrow(QueryError);
  expect(query.whole("absent", 0, 9, undefined)).toBeUndefined();
  expect(query.one("word", ["up", "down"])).toBe("up");
  expect(() => query.one("word", ["down"])).toThrow("word is one of down");
  expect(query.some("list", ["up", "down", "blind"])).toEqual(["up", "down"]);
  expect(() => query.some("list", ["up"])).toThrow(QueryError);
  expect(query.all("label")).toEqual(["a=b", "c"]);
  expect(() => query.must("absent")).toThrow("give the query parameter absent");
});
