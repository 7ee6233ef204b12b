/** A bucket, and where it is. Credentials come from where AWS's tools look for them. */
export interface S3Settings {
  readonly bucket: string;
  /** Before each key: "" or a text that ends in "/". */
  readonly prefix: string;
  /** A server that speaks S3, absolute; undefined = AWS. */
  readonly endpoint: string | undefined;
  /** Undefined = as AWS's tools find it. */
  readonly region: string | undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Where `s3://bucket` or `s3://bucket/prefix` is. Other servers than AWS rarely have regions, and the client wants one.
 * @param endpoint a server that speaks S3; undefined = AWS
 * @returns undefined for any other text
 */
export function s3Settings(text: string, endpoint: string | undefined, env: Environment): S3Settings | undefined {
  const [, bucket, path = ""] = /^s3:\/\/([a-z\d][a-z\d.-]{1,61}[a-z\d])((?:\/[\w.!*'()-]+)*)\/?$/.exec(text) ?? [];
  if (bucket === undefined) return undefined;
  const region = env["AWS_REGION"] || env["AWS_DEFAULT_REGION"] || (endpoint === undefined ? undefined : "us-east-1");
  return { bucket, prefix: path === "" ? "" : `${path.slice(1)}/`, endpoint, region };
}

/** What a text must be that names a bucket. */
export const S3_FORM = "must be s3://bucket or s3://bucket/prefix";

/** Whether a text is the address of a server. */
export function isServer(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return (url?.protocol === "http:" || url?.protocol === "https:") && url.username === "" && url.search === "";
}
