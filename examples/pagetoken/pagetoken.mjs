// Makes a page token without a server: KEY_ID=1 API_KEY=cbk_... node pagetoken.mjs
import { createPrivateKey, hkdfSync, sign } from "node:crypto";

const { API_KEY, KEY_ID } = process.env;
if (!API_KEY || !(Number(KEY_ID) > 0)) {
  throw new Error("KEY_ID and API_KEY must be set, as in KEY_ID=1 API_KEY=cbk_...");
}
const seed = Buffer.from(hkdfSync("sha256", API_KEY, "", "canvasback page token", 32));
const der = Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), seed]); // PKCS #8
const key = createPrivateKey({ key: der, format: "der", type: "pkcs8" });

const expires = Math.floor(Date.now() / 1000) + 3600;
// "s" are the scopes of the token, and "x" its sources; both may be absent.
const payload = { k: Number(KEY_ID), e: expires, s: ["symbols:read"] };
const signed = "cbt_" + Buffer.from(JSON.stringify(payload)).toString("base64url");
console.log(signed + "." + sign(null, Buffer.from(signed), key).toString("base64url"));
