import Foundation
import KeyCustody
import StoreCrypto
import StorePlatform

/// A key that signs policies of PCRs. The TPM unseals a secret under every boot whose policy the key has signed.
///
/// - SeeAlso: TPM 2.0 Library, part 3, `TPM2_PolicyAuthorize`; `systemd-measure(1)`.
package struct SignedPolicy: Hashable, Sendable {
    package let key: RSAPublicKey
    /// The PCRs of the bank SHA-256 whose values are signed, ascending; at least one.
    package let pcrs: [Int]

    /// - Returns: Nil without PCRs, or with numbers that no PCR has.
    package init?(key: RSAPublicKey, pcrs: [Int]) {
        guard !pcrs.isEmpty, pcrs.allSatisfy((0..<SealedSecret.pcrCount).contains) else { return nil }
        self.key = key
        self.pcrs = Set(pcrs).sorted()
    }

    /// Bit n is PCR n.
    var mask: UInt32 { pcrs.reduce(0) { $0 | 1 << UInt32($1) } }

    /// The policy digest after `TPM2_PolicyPCR` alone, which the key signs.
    func digest(for values: [[UInt8]]) throws(CryptoError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: SealedSecret.digestBytes)
        // TPM2_CC_PolicyPCR, one selection, its bank, 3 bytes of bits.
        bytes += [0, 0, 0x01, 0x7f, 0, 0, 0, 1, UInt8(SealedSecret.bank >> 8), UInt8(SealedSecret.bank & 0xff), 3]
        bytes += (0..<3).map { UInt8(truncatingIfNeeded: mask >> (8 * $0)) }
        return try Self.sha256(bytes + Self.sha256(values.flatMap(\.self)))
    }

    static func sha256(_ bytes: [UInt8]) throws(CryptoError) -> [UInt8] {
        var sum = try ContentDigest()
        bytes.withUnsafeBytes { sum.update($0) }
        return try sum.finish()
    }
}

/// The signature of one policy of PCRs.
package struct PolicyApproval: Hashable, Sendable {
    let policy: [UInt8]
    let signature: [UInt8]
    /// The file that has the signature.
    let path: String
}

/// The signatures of a file that systemd-measure has made.
///
///     {"sha256": [{"pcrs": [11], "pkfp": "<hex>", "pol": "<hex>", "sig": "<Base64>"}]}
struct PolicySignatures: Sendable {
    static let mostBytes = 256 * 1024
    static let mostEntries = 256

    private struct Entry: Decodable {
        let pcrs: [Int]
        /// The fingerprint of the key.
        let pkfp: String
        let pol: String
        let sig: Data
    }

    private struct Content: Decodable {
        /// Nil if the file has other banks only.
        let sha256: [Entry]?
    }

    private let path: String
    private let entries: [Entry]

    /// - Throws: ``TPM2Error`` `malformedSignatures`.
    init(_ bytes: [UInt8], of path: String) throws(TPM2Error) {
        guard bytes.count <= Self.mostBytes, let content = try? JSONDecoder().decode(Content.self, from: Data(bytes)),
            content.sha256?.count ?? 0 <= Self.mostEntries
        else { throw .malformedSignatures(path: path) }
        (self.path, entries) = (path, content.sha256 ?? [])
    }

    /// The signature of a policy for values of its PCRs.
    ///
    /// - Throws: ``TPM2Error`` `otherSigner`, `unsignedPCRs`, `refusedSignature`; ``CryptoError``.
    func approval(of policy: SignedPolicy, for values: [[UInt8]]) throws -> PolicyApproval {
        let fingerprint = Hex.text(try policy.key.fingerprint())
        let digest = try policy.digest(for: values)
        let own = entries.filter { $0.pkfp.lowercased() == fingerprint }
        guard !own.isEmpty else { throw TPM2Error.otherSigner(path: path) }
        let found = own.first { Set($0.pcrs) == Set(policy.pcrs) && $0.pol.lowercased() == Hex.text(digest) }
        guard let found else { throw TPM2Error.unsignedPCRs(policy.pcrs, path: path) }
        guard found.sig.count == policy.key.modulus.count else { throw TPM2Error.refusedSignature(path: path) }
        return PolicyApproval(policy: digest, signature: Array(found.sig), path: path)
    }
}

/// The place of the file of signatures.
struct SignatureFile: Sendable {
    /// The folders in which systemd searches, in its order.
    static let folders = ["/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd"]
    private static let name = "tpm2-pcr-signature.json"

    private let given: String?
    private let candidates: [String]

    /// - Parameter path: Nil for the first file in the folders.
    init(_ path: String? = nil, folders: [String] = Self.folders) {
        given = path
        candidates = folders.map { "\($0)/\(Self.name)" }
    }

    /// The path that was given, or the first file; nil if there is none.
    var path: String? { given ?? candidates.first { (try? Files.kind($0)) == .regular } }

    /// - Throws: ``TPM2Error`` `noSignatures`, `unreadableSignatures`, `malformedSignatures`.
    func read() throws(TPM2Error) -> PolicySignatures {
        guard let path else { throw .noSignatures(candidates) }
        do {
            return try PolicySignatures(
                Files.contents(of: path, limitBytes: PolicySignatures.mostBytes), of: path)
        } catch let error as TPM2Error {
            throw error
        } catch {
            throw .unreadableSignatures(path: path, why: "\(error)")
        }
    }
}

/// The file of a public key in PEM.
enum PublicKeyFile {
    private static let mostBytes = 64 * 1024

    /// - Throws: `StoreError` `keyMissing` if it cannot be read, `invalidKey` if no such key is in there.
    static func read(_ path: String) throws(StoreError) -> RSAPublicKey {
        let bytes: [UInt8]
        do {
            bytes = try Files.contents(of: path, limitBytes: mostBytes)
        } catch {
            throw StoreError(
                .keyMissing, what: "The public key of the signed PCRs was not read.", why: "\(error).",
                remedy: "Name the file of the public key in PEM.")
        }
        guard let key = RSAPublicKey(pem: bytes) else {
            throw StoreError(
                .invalidKey, what: "The public key of the signed PCRs cannot be used.",
                why: "\"\(path)\" has no RSA public key of 2048, 3072 or 4096 bits with the exponent 65537 in PEM.",
                remedy: "Make the file from the private key: openssl rsa -in private.pem -pubout -out public.pem")
        }
        return key
    }
}
