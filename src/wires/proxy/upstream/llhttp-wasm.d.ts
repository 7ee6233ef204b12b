/** A file of undici's package that has no types of its own. */
declare module "undici/lib/llhttp/llhttp_simd-wasm.js" {
  /** The bytes of a WebAssembly module. */
  const wasm: Uint8Array;
  export default wasm;
}
