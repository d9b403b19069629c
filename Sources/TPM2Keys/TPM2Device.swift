import KeyCustody
import StoreCrypto
import StorePlatform
import Synchronization

extension KeySource {
    /// The TPM 2.0 of this machine, which gives back the secret of a keyslot that it has sealed.
    ///
    /// It opens stores with a keyslot of this TPM. The source keeps the secret, and the PIN once the TPM has accepted it:
    /// the TPM is asked once, however often the store is opened by this source.
    ///
    /// - Parameters:
    ///   - pcrs: Of a new keyslot: the PCRs (0 to 23, of the bank SHA-256) that must keep their values. A renewed keyslot
    ///     keeps its PCRs where none are given.
    ///   - publicKey: Of a new keyslot: the path of an RSA public key in PEM. The values of `publicKeyPCRs` may change to
    ///     every value that this key has signed, so that an update of the machine does not lock out. A renewed keyslot
    ///     keeps its key where none is given.
    ///   - publicKeyPCRs: The PCRs whose values that key signs.
    ///   - signatures: The path of the signatures, a file of systemd-measure. Nil is the first
    ///     `tpm2-pcr-signature.json` in `/etc/systemd`, `/run/systemd`, `/usr/local/lib/systemd` and `/usr/lib/systemd`.
    ///   - asksPIN: Of a new keyslot: whether the TPM asks for a PIN. It limits how often a PIN may be wrong.
    ///   - pin: Read when a PIN is needed.
    ///   - onNote: Receives a sentence before the TPM is asked.
    ///
    /// A keyslot with signed PCRs is tested before it is written, unless there is no file of signatures.
    ///
    /// An opening fails with `StoreError` `keyMissing` if there is no TPM, it is locked out or there are no signatures. It
    /// fails with `invalidKey` if a file is not of its form, and with `unsupportedLibrary` without the trait `TPM2`. It
    /// fails with `wrongKey` if the PIN is wrong, a PCR has changed or its value is not signed, the TPM was cleared or is
    /// another one. The error names the other keyslots.
    ///
    /// - SeeAlso: <https://www.freedesktop.org/software/systemd/man/latest/systemd-measure.html>
    public static func tpm2(
        pcrs: [Int] = [], publicKey: String? = nil, publicKeyPCRs: [Int] = [11], signatures: String? = nil,
        asksPIN: Bool = false, pin: KeySource? = nil, onNote: @escaping @Sendable (String) -> Void = { _ in }
    ) -> KeySource {
        let boot = SignedBoot(publicKey: publicKey, pcrs: publicKeyPCRs, signatures: SignatureFile(signatures))
        return .token(TPM2Device(pcrs: pcrs, boot: boot, asksPIN: asksPIN, pin: pin, onNote: onNote), onAsk: onNote)
    }
}

/// The files of a key that signs the values of PCRs.
struct SignedBoot: Sendable {
    /// Of a new keyslot.
    var publicKey: String?
    var pcrs = [11]
    var signatures = SignatureFile()

    /// Nil without a public key.
    func policy() throws(StoreError) -> SignedPolicy? {
        guard let publicKey else { return nil }
        guard let policy = SignedPolicy(key: try PublicKeyFile.read(publicKey), pcrs: pcrs) else {
            throw StoreError(
                .invalidKey, what: "The TPM sealed no secret.",
                why: "The signed PCRs are none, or have numbers that no PCR has.", remedy: "Name PCRs from 0 to 23.")
        }
        return policy
    }
}

/// A TPM as a device of keyslots.
final class TPM2Device: TokenDevice {
    let kind = Keyslot.Kind.tpm2
    let name = "TPM"
    private let pcrs: [Int]
    private let boot: SignedBoot
    private let asksPIN: Bool
    private let source: KeySource?
    private let address: String
    private let onNote: @Sendable (String) -> Void
    /// The PIN that the TPM has accepted, or that a new keyslot got.
    private let accepted = Mutex<SecretBytes?>(nil)

    init(
        pcrs: [Int] = [], boot: SignedBoot = SignedBoot(), asksPIN: Bool = false, pin: KeySource? = nil,
        address: String = TPM2.usualAddress, onNote: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        (self.pcrs, self.boot, self.asksPIN, source) = (pcrs, boot, asksPIN, pin)
        (self.address, self.onNote) = (address, onNote)
    }

    func mayOpen(_ token: SlotToken) -> Bool { SealedSecret(token.blob) != nil }

    /// Never: the TPM itself must seal.
    func wrapsAlone(_ former: SlotToken) -> Bool { false }

    func wrap(_ secret: SecretBytes, for store: StoreID, replacing former: SlotToken?) throws -> WrappedSecret {
        let sealed = former.flatMap { SealedSecret($0.blob) }
        // A renewed keyslot keeps what it asks for.
        let policy = try boot.policy() ?? sealed?.signed
        let pin = sealed?.needsPIN ?? asksPIN ? try pin() : nil
        let made = try explaining {
            try TPM2(at: address).seal(
                secret, pcrs: pcrs.isEmpty ? sealed?.pcrs ?? [] : pcrs, signed: policy, pin: pin)
        }
        accepted.withLock { $0 = pin }
        guard let token = SlotToken(name: try SlotLabel(made.label), blob: made.encoded) else {
            preconditionFailure("a sealed secret is longer than the blob of a keyslot")
        }
        let isTestable = policy == nil || boot.signatures.path != nil
        if !isTestable { onNote("the new keyslot was not tested: there is no file of signatures yet") }
        return WrappedSecret(token, isTestable: isTestable)
    }

    func unwrap(_ token: SlotToken, of slot: TokenSlot) throws -> SecretBytes? {
        guard let sealed = SealedSecret(token.blob) else { return nil }
        var given: SecretBytes?
        return try explaining(slot: slot.number) {
            let tpm = try TPM2(at: address)
            // Before the PIN: nobody is asked for the PIN of another machine, or of one whose boot is not signed.
            try tpm.requireOwn(sealed)
            let approval = try tpm.approval(of: sealed, in: boot.signatures)
            if sealed.needsPIN, given == nil { given = try pin() }
            let secret = try tpm.unseal(sealed, approval, pin: given)
            accepted.withLock { $0 = given }
            return secret
        }
    }

    /// - Throws: `StoreError` `keyMissing` where none was given.
    private func pin() throws -> SecretBytes {
        if let pin = accepted.withLock({ $0 }) { return pin }
        guard let source else {
            throw StoreError(
                .keyMissing, what: "The TPM gave no key.", why: "It needs a PIN, and none was given.",
                remedy: "Give the PIN by a file, a descriptor, a command or at the prompt.")
        }
        return try source.read().withBytes { SecretBytes(copying: $0) }
    }

    /// Tries again while other programs use the memory of the TPM.
    private func waitingForMemory<Success>(_ work: () throws -> Success) throws -> Success {
        for _ in 1...Self.attempts {
            do {
                return try work()
            } catch TPM2Error.busy {
                Pause.sleep(for: Self.pause)
            }
        }
        return try work()
    }

    /// The attempts beside the last one, and the pause between two.
    private static let (attempts, pause) = (30, Duration.milliseconds(100))

    /// - Parameter slot: The number of the slot; 0 while it is being made.
    private func explaining<Success>(slot: UInt64 = 0, _ work: () throws -> Success) throws -> Success {
        do {
            return try waitingForMemory(work)
        } catch let error as TPM2Error {
            let explained = StoreError(
                error.code, what: "The TPM gave no key.",
                why: "\(error)".prefix(1).uppercased() + "\(error)".dropFirst() + ".", remedy: error.remedy(slot: slot))
            if slot > 0, error.isOfOneSlot { throw OtherDevice(explained) }
            throw explained
        }
    }
}

extension TPM2Error {
    fileprivate var code: StoreError.Code {
        switch self {
        case .notBuilt: .unsupportedLibrary
        case .absent, .lockedOut, .noBank, .busy, .failed, .noSignatures, .unreadableSignatures: .keyMissing
        case .otherTPM, .cleared, .otherOrCleared, .changedPCRs, .policyRefused, .wrongPIN, .otherSigner, .unsignedPCRs,
            .refusedSignature:
            .wrongKey
        case .damaged, .malformedSignatures, .unusablePublicKey: .invalidKey
        }
    }

    /// Whether another keyslot may open with this TPM.
    fileprivate var isOfOneSlot: Bool {
        switch self {
        case .otherTPM, .cleared, .otherOrCleared, .changedPCRs, .policyRefused, .noSignatures, .unreadableSignatures,
            .malformedSignatures, .otherSigner, .unsignedPCRs, .refusedSignature:
            true
        default: false
        }
    }

    /// The remedy. The error that a user sees also names the other keyslots.
    fileprivate func remedy(slot: UInt64) -> String {
        let change = "cipherctl key change --slot \(slot)"
        return switch self {
        case .notBuilt: "Use a program that was built with the trait TPM2."
        case .absent:
            "Switch the TPM on in the firmware, and run as a user of its device (Debian: the group tss). "
                + "CIPHERSTORE_TPM2_TCTI names another address."
        case .otherTPM, .cleared, .otherOrCleared:
            "Open the store with another key, and replace the keyslot: \(change)"
        case .changedPCRs, .policyRefused:
            "If the change of the boot is yours, such as an update, open the store with another key and replace the "
                + "keyslot (`\(change)`). Otherwise find out who changed it."
        case .noSignatures, .unreadableSignatures:
            "Put the signatures of systemd-measure into one of the folders, or name their file: --tpm2-signature FILE."
        case .malformedSignatures: "Make the file again: systemd-measure sign."
        case .unsignedPCRs, .otherSigner, .refusedSignature:
            "If this boot is yours, such as an update, sign it with the private key of the keyslot (`systemd-measure "
                + "sign`)\(slot > 0 ? ", or open the store with another key and replace the keyslot (`\(change)`)" : "")."
        case .unusablePublicKey: "Use an RSA key of 2048 bits, which every TPM 2.0 verifies."
        case .wrongPIN: "Give the PIN of this keyslot. After some wrong ones the TPM refuses every PIN for a time."
        case .lockedOut: "Wait, often some hours, or end the lockout as the owner of the TPM: tpm2_dictionarylockout."
        case .damaged: "Restore the sidecar from a backup, or open the store with another key."
        case .noBank: "Leave out the PCRs, or switch the bank SHA-256 on in the firmware."
        case .busy:
            "Other programs use the memory of the TPM: end them. Killed programs leave objects there: remove these by "
                + "`tpm2_flushcontext -t`, or restart the machine."
        case .failed: "Look at the log of the kernel, and try again."
        }
    }
}
