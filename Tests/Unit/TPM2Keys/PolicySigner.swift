import Foundation
import KeyCustody
import StoreCrypto
import Testing

@testable import TPM2Keys

/// A private RSA key of one test, by the program openssl. It signs values of PCRs as systemd-measure does.
final class PolicySigner {
    private static let program = "/usr/bin/openssl"
    static let isPossible = FileManager.default.isExecutableFile(atPath: program)

    private let folder: URL
    private var entries: [String] = []

    var publicKey: String { folder.appending(path: "public.pem").path }
    var signatures: String { folder.appending(path: "tpm2-pcr-signature.json").path }
    var file: SignatureFile { SignatureFile(signatures) }

    init(bits: Int = 2048) throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "signer-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try openssl("genrsa", "-out", path("private.pem"), "\(bits)")
        try openssl("rsa", "-in", path("private.pem"), "-pubout", "-out", publicKey)
        try write()
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    private func path(_ name: String) -> String { folder.appending(path: name).path }

    private func openssl(_ arguments: String...) throws {
        try #require(try SoftwareTPM.run(Self.program, arguments) == 0, "openssl \(arguments)")
    }

    func policy(_ pcrs: [Int]) throws -> SignedPolicy {
        try #require(try SignedPolicy(key: PublicKeyFile.read(publicKey), pcrs: pcrs))
    }

    /// Signs the policy of values.
    func signature(_ pcrs: [Int], _ values: [[UInt8]]) throws -> PolicyApproval {
        let digest = try policy(pcrs).digest(for: values)
        try Data(digest).write(to: folder.appending(path: "policy"))
        try openssl("dgst", "-sha256", "-sign", path("private.pem"), "-out", path("signature"), path("policy"))
        let signature = try Data(contentsOf: folder.appending(path: "signature"))
        return PolicyApproval(policy: digest, signature: Array(signature), path: signatures)
    }

    /// Adds the present values of PCRs to the file of signatures.
    ///
    /// - Parameter owner: Whose signature the file claims it to be; nil is this key.
    func sign(_ pcrs: [Int], of tpm: SoftwareTPM, as owner: PolicySigner? = nil) throws {
        let made = try signature(pcrs, TPM2(at: tpm.address).values(of: pcrs))
        let fingerprint = try PublicKeyFile.read((owner ?? self).publicKey).fingerprint()
        entries.append(
            #"{"pcrs":\#(pcrs),"pkfp":"\#(Hex.text(fingerprint))","pol":"\#(Hex.text(made.policy))","#
                + #""sig":"\#(Data(made.signature).base64EncodedString())"}"#)
        try write()
    }

    private func write() throws {
        try #"{"sha256":[\#(entries.joined(separator: ","))]}"#
            .write(toFile: signatures, atomically: true, encoding: .utf8)
    }
}
