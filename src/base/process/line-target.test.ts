import { execFileSync } from "node:child_process";
import {
  closeSync,
  constants,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { VirtualClock } from "../clock/virtual.ts";
import { openLineTarget } from "./line-target.ts";

const open: { close(): void }[] = [];
afterEach(() => {
  for (const target of open.splice(0)) target.close();
});

function setUp() {
  const file = join(mkdtempSync(join(tmpdir(), "sluice-lines-")), "requests.log");
  return { file, clock: new VirtualClock() };
}

function targetOf(file: string, clock: VirtualClock) {
  const target = openLineTarget(file, clock);
  open.push(target);
  const put = (text: string, atStart = true) =>
    new Promise<string | number>((resolve) => {
      target.write(Buffer.from(text), atStart, (error, written) => resolve(error?.code ?? written));
    });
  return { target, put };
}

describe("the file of a line writer", () => {
  it("is appended to, and others may not read a new one", async () => {
    const { file, clock } = setUp();
    writeFileSync(file, "old\n");
    const { put } = targetOf(file, clock);
    expect(await put("a\n")).toBe(2);
    expect(readFileSync(file, "utf8")).toBe("old\na\n");
    const { put: other } = targetOf(`${file}.2`, clock);
    await other("b\n");
    expect(statSync(`${file}.2`).mode & 0o007).toBe(0);
  });

  it("is a new one after a rename, within a second or after a signal, and never within a line", async () => {
    const { file, clock } = setUp();
    const { target, put } = targetOf(file, clock);
    await put("a\n");
    renameSync(file, `${file}.1`);
    await put("b\n");
    await put("c");
    clock.advance(1000);
    await put("d\n", false);
    expect(existsSync(file)).toBe(false);
    await put("e\n");
    expect([readFileSync(`${file}.1`, "utf8"), readFileSync(file, "utf8")]).toEqual(["a\nb\ncd\n", "e\n"]);
    renameSync(file, `${file}.2`);
    target.reopen!();
    await put("f\n");
    expect([readFileSync(`${file}.2`, "utf8"), readFileSync(file, "utf8")]).toEqual(["e\n", "f\n"]);
    // Another file at the path counts like a rename: logrotate creates it.
    renameSync(file, `${file}.3`);
    writeFileSync(file, "");
    clock.advance(1000);
    await put("g\n");
    expect(readFileSync(file, "utf8")).toBe("g\n");
  });

  it("begins a new line after one that a failure has torn", async () => {
    const { file, clock } = setUp();
    const { put } = targetOf(file, clock);
    await put('{"half":');
    await put("whole\n");
    expect(readFileSync(file, "utf8")).toBe('{"half":\nwhole\n');
  });

  it("reports that it cannot be opened again, and is tried with the next write", async () => {
    const { file, clock } = setUp();
    const { put } = targetOf(file, clock);
    await put("a\n");
    const folder = join(file, "..");
    renameSync(folder, `${folder}-moved`);
    clock.advance(1000);
    expect(await put("b\n")).toBe("ENOENT");
    expect(await put("b\n")).toBe("ENOENT");
    renameSync(`${folder}-moved`, folder);
    expect(await put("b\n")).toBe(2);
    expect(readFileSync(file, "utf8")).toBe("a\nb\n");
  });

  it("reports a full disk", async () => {
    const { clock } = setUp();
    const { put } = targetOf("/dev/full", clock);
    expect(await put("a\n")).toBe("ENOSPC");
  });

  it("may be a named pipe: without room and without a reader it says so at once", async () => {
    const { file, clock } = setUp();
    execFileSync("mkfifo", [file]);
    expect(() => openLineTarget(file, clock)).toThrow("ENXIO");
    const reader = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
    const { put } = targetOf(file, clock);
    const line = `${"x".repeat(65_535)}\n`;
    const answers = [await put(line), await put(line)];
    while (answers.at(-1) !== "EAGAIN") answers.push(await put(line));
    expect(answers[0]).toBe(65_536);
    expect(readSync(reader, Buffer.alloc(10))).toBe(10);
    closeSync(reader);
    expect(await put("a\n")).toBe("EPIPE");
  });

  it("is refused where it cannot be opened", () => {
    const { file, clock } = setUp();
    expect(() => openLineTarget(join(file, "below", "x"), clock)).toThrow("ENOENT");
  });
});
