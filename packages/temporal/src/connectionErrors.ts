// What a connection that could not be opened means: no server, no encryption that both sides agree on, or a server that refuses the caller.
// Owns: the words for Core's reports, which are debug texts of its libraries.
// Invariants: what a repetition can't change (a certificate, a refusal) is not `retryable`; a report that is not known is passed on as it is.

import { HoldfastError, messageOf } from "@holdfast/core";

interface Target {
  /** `host:port`. */
  readonly address: string;
  readonly isEncrypted: boolean;
  /** The client has shown one. */
  readonly hasCertificate: boolean;
}

/** A pattern of Core's report, and what it means. */
const TLS_PROBLEMS: readonly (readonly [RegExp, string])[] = [
  [
    /InvalidCertificate\(UnknownIssuer\)/,
    "its certificate is not signed by an authority that this client trusts. Pass the certificate of the authority as temporal.tls.serverRootCACertificate.",
  ],
  [
    /InvalidCertificate\(NotValidForName/,
    "its certificate is for another host. Connect to the host that it names, or pass that name as temporal.tls.serverNameOverride.",
  ],
  [
    /InvalidCertificate\((Expired|NotValidYet)/,
    "its certificate has expired, or is not valid yet. Check the server's certificate and the clocks.",
  ],
  [/InvalidCertificate/, "its certificate is not valid."],
  [/CertificateRequired/, "it demands a client certificate. Pass temporal.tls.clientCertPair."],
  [
    /fatal alert: (\w*Certificate\w*|UnknownCA|AccessDenied|DecryptError)/,
    "it does not accept the client certificate of temporal.tls.clientCertPair.",
  ],
  [/InvalidMessage|InvalidContentType/, "it does not answer in TLS. If it has none, write temporal:// instead of temporals://."],
];
/** Core's words for the statuses with which a server refuses the caller. */
const REFUSED = /valid authentication credentials|does not have permission|Unauthenticated|PermissionDenied/;
/**
 * The other side closed a connection that was established. With TLS 1.3 a server checks the client's certificate after that, so that its
 * reason may arrive or not.
 */
const CLOSED = /BrokenPipe|ConnectionReset|UnexpectedEof|connection closed/;

export function connectionError(target: Target, cause: unknown): HoldfastError {
  const report = messageOf(cause);
  const where = `the Temporal server at ${target.address}`;
  const known = TLS_PROBLEMS.find(([pattern]) => pattern.test(report));
  if (target.isEncrypted && known !== undefined)
    return new HoldfastError(`There is no encrypted connection to ${where}: ${known[1]} (${report})`, { code: "HF_TEMPORAL_TLS", cause });
  if (REFUSED.test(report)) return new HoldfastError(`A call to ${where} was refused: ${report}`, { code: "HF_TEMPORAL_REFUSED", cause });
  const message = `The Temporal server at ${target.address} can't be reached.${CLOSED.test(report) ? hintFor(target) : ""} (${report})`;
  return new HoldfastError(message, { code: "HF_TEMPORAL_UNAVAILABLE", retryable: true, cause });
}
function hintFor({ isEncrypted, hasCertificate }: Target): string {
  if (!isEncrypted) return " It closed the connection: if it demands TLS, write temporals:// instead of temporal://.";
  return hasCertificate
    ? " It closed the connection: check whether it accepts the client certificate of temporal.tls.clientCertPair."
    : " It closed the connection: if it demands a client certificate, pass temporal.tls.clientCertPair.";
}

/** The function `temporal.apiKey` threw, or returned something else than a key. */
export function apiKeyError(cause: unknown): HoldfastError {
  const message = `The function temporal.apiKey did not return a key: ${messageOf(cause)}`;
  return new HoldfastError(message, { code: "HF_TEMPORAL_API_KEY", retryable: true, cause });
}
