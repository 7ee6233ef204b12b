/**
 * A request whose prompt has no tokens here, though its tokenizer works. The message says why in words that hold nothing of the
 * prompt.
 */
export class RequestUnusable extends Error {
  override readonly name = "RequestUnusable";
}
