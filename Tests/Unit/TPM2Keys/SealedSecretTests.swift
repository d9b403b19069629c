import Foundation
import KeyCustody
import StoreCrypto
import Testing

@testable import TPM2Keys

/// Blobs, PINs and files of signatures of another implementation. They need no TPM.
@Suite("The sealed secret of a TPM as bytes")
struct SealedSecretTests {
    @Test("a blob is read and written as the document says, and others are refused", arguments: TPM2Vectors.all.secrets)
    func blob(vector: TPM2Vectors.Secret) throws {
        let sealed = SealedSecret(try vector.blob.hexBytes)
        guard let content = vector.content else {
            #expect(sealed == nil)
            return
        }
        let read = try #require(sealed)
        #expect(read.pcrs == content.pcrs && read.needsPIN == content.pin)
        #expect(read.signed?.pcrs ?? [] == content.signedPCRs)
        #expect(try read.signed?.key.modulus ?? [] == content.modulus.hexBytes)
        #expect(try read.salt == content.salt.hexBytes && read.parent == content.parent.hexBytes)
        #expect(try read.machine == content.machine.hexBytes && read.publicPart == content.publicPart.hexBytes)
        #expect(try read.privatePart == content.privatePart.hexBytes)
        #expect(try read.values == content.values.map { try $0.hexBytes })
        #expect(Hex.text(read.encoded) == vector.blob)
        // A keyslot holds it, with its conditions as a name.
        #expect(try SlotToken(name: SlotLabel(read.label), blob: read.encoded) != nil)
    }

    @Test("a cut blob is refused at every length")
    func cut() throws {
        for vector in TPM2Vectors.all.secrets where vector.content != nil {
            let blob = try vector.blob.hexBytes
            for count in 0..<blob.count where SealedSecret(Array(blob.prefix(count))) != nil {
                Issue.record("\(vector.name), \(count) bytes")
            }
        }
    }

    @Test("a PIN gives the authorization value of the document", arguments: TPM2Vectors.all.pins)
    func pin(vector: TPM2Vectors.PIN) throws {
        let value = try TPM2.authorization(SecretBytes(copying: vector.pin.utf8), vector.salt.hexBytes)
        #expect(value.withBytes { Hex.text(Array($0)) } == vector.authorization)
    }

    @Test("the document has the offsets, the bounds and the digests of the code")
    func document() throws {
        let file = TPM2Vectors.root.appending(path: "Docs/Formats/SealedSecret.md")
        let page = try String(contentsOf: file, encoding: .utf8)
        let offsets = SealedSecret.offsets
        for row in [
            "| \(offsets.version) | 1 | version, 1 or 2 |", "| \(offsets.pin) | 1 | 1 if the TPM asks for a PIN",
            "| \(offsets.bank) | 2 | bank of the PCRs, 0x000b", "| \(offsets.pcrs) | 4 | PCRs that must keep",
            "| \(offsets.salt) | \(SealedSecret.saltBytes) | salt", "| \(offsets.rest) | 4 | only in version 2",
            "| \(offsets.rest + 4) | 2 + n | only in version 2",
            "1 to \(SealedSecret.nameBytes) bytes", "1 to \(SealedSecret.partBytes) bytes",
            "at most \(PolicySignatures.mostBytes / 1024) KiB", "at most \(PolicySignatures.mostEntries) entries",
        ] { #expect(page.contains(row), "\(row)") }
        for folder in SignatureFile.folders { #expect(page.contains("`\(folder)`")) }
        let example = try #require(TPM2Vectors.all.policies.first { $0.name == "PCR 7, signed PCR 11, and a PIN" })
        #expect(page.contains("| after PolicyAuthValue | `\(example.policy)` |"))
        #expect(page.contains("| signed digest | `\(example.signedPolicy ?? "")` |"))
        let digest = try #require(try example.signed()).digest(for: [[UInt8](repeating: 0, count: 32)])
        #expect(try digest == example.signedPolicy?.hexBytes)
    }
}

@Suite("Files of signatures of PCRs")
struct PolicySignatureTests {
    /// The name of the case of an error, without its values.
    private func verdict(_ vector: TPM2Vectors.Signature) throws -> (name: String, signature: [UInt8]) {
        let policy = try #require(try SignedPolicy(key: TPM2Vectors.key(vector.modulus), pcrs: vector.pcrs))
        do {
            let signatures = try PolicySignatures(Array(vector.file.utf8), of: "file")
            return ("ok", try signatures.approval(of: policy, for: vector.values.map { try $0.hexBytes }).signature)
        } catch let error as TPM2Error {
            return (caseName(of: error), [])
        }
    }

    private func caseName(of error: TPM2Error) -> String {
        switch error {
        case .malformedSignatures: "malformedSignatures"
        case .otherSigner: "otherSigner"
        case .unsignedPCRs: "unsignedPCRs"
        case .refusedSignature: "refusedSignature"
        default: "another error"
        }
    }

    @Test("the signature of the present values is found", arguments: TPM2Vectors.all.signatures)
    func file(vector: TPM2Vectors.Signature) throws {
        let (name, signature) = try verdict(vector)
        #expect(name == vector.verdict)
        #expect(try signature == vector.signature.hexBytes)
    }

    @Test("a file of too many entries or bytes is refused, and one of the most is read")
    func bounds() throws {
        let vector = try #require(TPM2Vectors.all.signatures.first)
        let entry = #"{"pcrs":[1],"pkfp":"","pol":"","sig":""}"#
        func file(_ count: Int) -> [UInt8] {
            Array(#"{"sha256":[\#(Array(repeating: entry, count: count).joined(separator: ","))]}"#.utf8)
        }
        _ = try PolicySignatures(file(PolicySignatures.mostEntries), of: "")
        let refused = TPM2Error.malformedSignatures(path: "f")
        #expect(throws: refused) { try PolicySignatures(file(PolicySignatures.mostEntries + 1), of: "f") }
        let padding = [UInt8](repeating: 0x20, count: PolicySignatures.mostBytes - vector.file.utf8.count)
        _ = try PolicySignatures(Array(vector.file.utf8) + padding, of: "")
        #expect(throws: refused) { try PolicySignatures(Array(vector.file.utf8) + padding + [0x20], of: "f") }
    }

    @Test("the first folder that has a file counts; a file that is missing or no file is an error with its path")
    func search() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "signatures-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        let folders = ["a", "b", "c"].map { folder.appending(path: $0).path }
        for path in folders { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }
        let paths = folders.map { "\($0)/tpm2-pcr-signature.json" }
        #expect(throws: TPM2Error.noSignatures(paths)) { try SignatureFile(folders: folders).read() }
        try #"{"sha256":[]}"#.write(toFile: paths[2], atomically: false, encoding: .utf8)
        #expect(SignatureFile(folders: folders).path == paths[2])
        try "no JSON".write(toFile: paths[1], atomically: false, encoding: .utf8)
        #expect(SignatureFile(folders: folders).path == paths[1])
        #expect(throws: TPM2Error.malformedSignatures(path: paths[1])) { try SignatureFile(folders: folders).read() }
        _ = try SignatureFile(paths[2], folders: folders).read()
        for path in [paths[0], folders[0]] {
            let error = #expect(throws: TPM2Error.self) { try SignatureFile(path).read() }
            #expect(error.map { "\($0)".contains(path) } == true)
        }
    }
}
