import Foundation
import StoreCrypto
import StorePlatform
import Synchronization
import Testing

@testable import KeyCustody
@testable import TPM2Keys

/// Secrets that a TPM unseals under each boot that a key has signed.
@Suite(
    "Signed PCR policies",
    .enabled(
        if: SoftwareTPM.isUsable && SoftwareTPM.hasTools && PolicySigner.isPossible,
        "needs swtpm, tpm2-tools, openssl and the trait TPM2"))
struct SignedPolicyTests {
    private let tpm: SoftwareTPM
    private let signer: PolicySigner
    private let secret: SecretBytes
    private let pin = SecretBytes(copying: "1234".utf8)

    init() throws {
        (tpm, signer, secret) = (try SoftwareTPM(), try PolicySigner(), try .random(count: 32))
    }

    private func open(
        _ sealed: SealedSecret, _ file: SignatureFile? = nil, pin: SecretBytes? = nil
    ) throws -> Bool {
        let tpm = try TPM2(at: tpm.address)
        let approval = try tpm.approval(of: sealed, in: file ?? signer.file)
        return try tpm.unseal(sealed, approval, pin: pin).isEqual(to: secret)
    }

    private func error(
        _ sealed: SealedSecret, _ file: SignatureFile? = nil, pin: SecretBytes? = nil
    ) -> TPM2Error? {
        do {
            _ = try open(sealed, file, pin: pin)
            return nil
        } catch {
            return error as? TPM2Error
        }
    }

    @Test("a boot that is signed opens, one that is not is refused, and each signed one opens again")
    func boots() throws {
        let policy = try signer.policy([11])
        let sealed = try TPM2(at: tpm.address).seal(secret, signed: policy)
        let read = try #require(SealedSecret(sealed.encoded))
        #expect(read == sealed && read.encoded.first == 2 && "\(read)" == "signed PCR 11" && read.encoded.count < 1_100)
        #expect(error(read) == .otherSigner(path: signer.signatures))
        try signer.sign([11], of: tpm)
        #expect(try open(read))
        try tpm.extend(11)
        #expect(error(read) == .unsignedPCRs([11], path: signer.signatures))
        try signer.sign([11], of: tpm)
        #expect(try open(read))
        try tpm.restart()
        #expect(try open(read))
        // Other PCRs do not count.
        try tpm.extend(7)
        #expect(try open(read))
    }

    @Test("PCRs that must keep their values and a PIN are asked for besides")
    func everything() throws {
        try tpm.extend(7)
        try signer.sign([0, 11], of: tpm)
        let sealed = try TPM2(at: tpm.address).seal(secret, pcrs: [7], signed: signer.policy([11, 0]), pin: pin)
        #expect("\(sealed)" == "PCR 7, signed PCRs 0+11, PIN")
        #expect(try open(sealed, pin: pin))
        #expect(error(sealed) == .wrongPIN)
        #expect(error(sealed, pin: SecretBytes(copying: "12345".utf8)) == .wrongPIN)
        try tpm.extend(0)
        #expect(error(sealed, pin: pin) == .unsignedPCRs([0, 11], path: signer.signatures))
        try signer.sign([0, 11], of: tpm)
        #expect(try open(sealed, pin: pin))
        try tpm.extend(7)
        #expect(error(sealed, pin: pin) == .changedPCRs([7]))
    }

    @Test("the signature of another key opens nothing, whatever the file and the blob say")
    func otherKey() throws {
        let other = try PolicySigner()
        let sealed = try TPM2(at: tpm.address).seal(secret, signed: signer.policy([11]))
        try other.sign([11], of: tpm)
        #expect(error(sealed, other.file) == .otherSigner(path: other.signatures))
        try other.sign([11], of: tpm, as: signer)
        #expect(error(sealed, other.file) == .refusedSignature(path: other.signatures))
        var replaced = sealed
        replaced.signed = try other.policy([11])
        #expect(error(replaced, other.file) == .policyRefused)
        replaced.signed = nil
        #expect(error(replaced) == .policyRefused)
        try signer.sign([12], of: tpm)
        replaced.signed = try signer.policy([12])
        // The key may sign other PCRs as well: the object does not say which ones it has to sign.
        #expect(try open(replaced))
    }

    @Test("a PCR that is extended after its signature was chosen is a refusal of the policy")
    func race() throws {
        let sealed = try TPM2(at: tpm.address).seal(secret, signed: signer.policy([11]))
        let values = try TPM2(at: tpm.address).values(of: [11])
        let approval = try signer.signature([11], values)
        #expect(try TPM2(at: tpm.address).unseal(sealed, approval).isEqual(to: secret))
        try tpm.extend(11)
        #expect(throws: TPM2Error.policyRefused) { try TPM2(at: tpm.address).unseal(sealed, approval) }
        #expect(throws: TPM2Error.policyRefused) { try TPM2(at: tpm.address).unseal(sealed) }
    }

    @Test("an object has the policy of the document", arguments: TPM2Vectors.all.policies)
    func policies(vector: TPM2Vectors.Policy) throws {
        let sealed = try TPM2(at: tpm.address)
            .seal(secret, pcrs: vector.pcrs, signed: vector.signed(), pin: vector.pin ? pin : nil)
        // TPM2B_PUBLIC: length, type, name algorithm, attributes, and the policy with its length.
        let attributes = vector.pin ? "00000012" : "00000412"
        #expect(Hex.text(Array(sealed.publicPart[2..<44])) == "0008000b\(attributes)0020\(vector.policy)")
        let digest = try vector.signed()?.digest(for: vector.signedPCRs.map { _ in [UInt8](repeating: 0, count: 32) })
        #expect(try digest == vector.signedPolicy?.hexBytes)
    }

    @Test("a key that the TPM does not verify is refused at the sealing")
    func unusable() throws {
        let long = try PolicySigner(bits: 4096)
        do {
            let sealed = try TPM2(at: tpm.address).seal(secret, signed: long.policy([11]))
            try long.sign([11], of: tpm)
            #expect(try open(sealed, long.file))
        } catch {
            #expect(error as? TPM2Error == .unusablePublicKey)
        }
    }

    @Test("twenty signed openings one after the other leave nothing in the TPM")
    func oneAfterTheOther() throws {
        try signer.sign([11], of: tpm)
        let sealed = try TPM2(at: tpm.address).seal(secret, signed: signer.policy([11]))
        for _ in 0..<20 { #expect(try open(sealed)) }
        try tpm.run("tpm2_createprimary")
    }
}

/// The device of keyslots with a key that signs PCRs.
@Suite(
    "A TPM with signed PCRs as a device of keyslots",
    .enabled(
        if: SoftwareTPM.isUsable && SoftwareTPM.hasTools && PolicySigner.isPossible,
        "needs swtpm, tpm2-tools, openssl and the trait TPM2"))
struct SignedDeviceTests {
    private let tpm: SoftwareTPM
    private let signer: PolicySigner
    private let store: StoreID
    private let secret: SecretBytes

    init() throws {
        (tpm, signer) = (try SoftwareTPM(), try PolicySigner())
        (store, secret) = (try .random(), try .random(count: 32))
    }

    private var slot: TokenSlot { TokenSlot(store: store, number: 2, label: .none) }
    private var boot: SignedBoot {
        SignedBoot(publicKey: signer.publicKey, pcrs: [11], signatures: signer.file)
    }

    private func error(_ body: () throws -> Void) -> (error: StoreError?, isOfOneSlot: Bool) {
        do {
            try body()
            return (nil, false)
        } catch {
            let other = error as? OtherDevice
            return (other?.error ?? error as? StoreError, other != nil)
        }
    }

    @Test("a keyslot has its conditions as a name, and keeps its key when it is renewed")
    func renewed() throws {
        try signer.sign([11], of: tpm)
        let device = TPM2Device(pcrs: [7], boot: boot, address: tpm.address)
        let wrapped = try device.wrap(secret, for: store, replacing: nil)
        #expect(wrapped.isTestable && wrapped.token.name.text == "PCR 7, signed PCR 11")
        let again = try #require(try device.unwrap(wrapped.token, of: slot))
        #expect(again.isEqual(to: secret))
        let opener = TPM2Device(boot: SignedBoot(signatures: signer.file), address: tpm.address)
        let renewed = try opener.wrap(secret, for: store, replacing: wrapped.token)
        #expect(renewed.isTestable && renewed.token.name == wrapped.token.name && renewed.token != wrapped.token)
        #expect(try opener.unwrap(renewed.token, of: slot)?.isEqual(to: secret) == true)
    }

    @Test("without a file of signatures a keyslot is made untested, with a note, and opens once there is one")
    func untested() throws {
        let notes = Mutex<[String]>([])
        let missing = SignatureFile(folders: ["/nonexistent"])
        let device = TPM2Device(
            boot: SignedBoot(publicKey: signer.publicKey, signatures: missing), address: tpm.address,
            onNote: { note in notes.withLock { $0.append(note) } })
        let wrapped = try device.wrap(secret, for: store, replacing: nil)
        #expect(!wrapped.isTestable && notes.withLock { $0.count } == 1)
        let refused = error { _ = try device.unwrap(wrapped.token, of: slot) }
        #expect(refused.error?.code == .keyMissing && refused.isOfOneSlot)
        #expect(refused.error?.why.contains("/nonexistent/tpm2-pcr-signature.json") == true)
        try signer.sign([11], of: tpm)
        let opener = TPM2Device(boot: SignedBoot(signatures: signer.file), address: tpm.address)
        #expect(try opener.unwrap(wrapped.token, of: slot)?.isEqual(to: secret) == true)
    }

    @Test("a boot that is not signed is an error with the PCR and the file, before a PIN is asked for")
    func unsigned() throws {
        try signer.sign([11], of: tpm)
        let asked = Mutex(0)
        let pin = KeySource.custom("PIN") {
            asked.withLock { $0 += 1 }
            return try Passphrase("4711")
        }
        let wrapped = try TPM2Device(boot: boot, asksPIN: true, pin: pin, address: tpm.address)
            .wrap(secret, for: store, replacing: nil)
        #expect(asked.withLock { $0 } == 1)
        try tpm.extend(11)
        let opener = TPM2Device(boot: SignedBoot(signatures: signer.file), pin: pin, address: tpm.address)
        let refused = error { _ = try opener.unwrap(wrapped.token, of: slot) }
        #expect(refused.error?.code == .wrongKey && refused.isOfOneSlot && asked.withLock { $0 } == 1)
        #expect(refused.error?.why.contains("PCR 11 has a value for which \"\(signer.signatures)\"") == true)
        #expect(refused.error?.remedy.contains("key change --slot 2") == true)
    }

    @Test("a public key that cannot be read or used is refused before the TPM is asked")
    func publicKeys() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "keys-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appending(path: "key").path
        func refused(_ pcrs: [Int] = [11], _ key: String? = nil) -> StoreError? {
            let boot = SignedBoot(publicKey: key ?? file, pcrs: pcrs, signatures: signer.file)
            return error {
                _ = try TPM2Device(boot: boot, address: "device:/dev/none").wrap(secret, for: store, replacing: nil)
            }.error
        }
        #expect(refused()?.code == .keyMissing && refused()?.why.contains(file) == true)
        try "no key".write(toFile: file, atomically: false, encoding: .utf8)
        #expect(refused()?.code == .invalidKey && refused()?.remedy.contains("openssl") == true)
        #expect(refused([], signer.publicKey)?.code == .invalidKey)
        #expect(refused([24], signer.publicKey)?.code == .invalidKey)
        #expect(refused([23], signer.publicKey)?.why.contains("no TPM at device:/dev/none") == true)
    }
}
