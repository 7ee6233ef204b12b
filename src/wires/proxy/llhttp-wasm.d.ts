// Files of undici's package that have no types of their own: the bytes of WebAssembly modules.
declare module "undici/lib/llhttp/llhttp-wasm.js" {
  const bytes: Uint8Array;
  export default bytes;
}
declare module "undici/lib/llhttp/llhttp_simd-wasm.js" {
  const bytes: Uint8Array;
  export default bytes;
}
