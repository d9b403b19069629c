import StoreCrypto
import StorePlatform
import Synchronization

@testable import KeyCustody

/// A device for tests: it masks secrets with a byte, which stands first in its tokens.
final class DeviceDouble: TokenDevice {
    struct State {
        var wraps = 0
        var unwraps = 0
        var failure: StoreError?
        var losesSecrets = false
        /// Whether it knows the tokens of other devices of its kind, as a TPM does.
        var knowsOthers = false
    }

    let kind: Keyslot.Kind
    let label: String
    let mask: UInt8
    /// Whether it wraps without being there, as with a public key.
    let isPublic: Bool
    let state = Mutex(State())

    init(_ kind: Keyslot.Kind = .plugin, label: String = "double", mask: UInt8 = 0x5a, isPublic: Bool = false) {
        (self.kind, self.label, self.mask, self.isPublic) = (kind, label, mask, isPublic)
    }

    var name: String { "plugin \"\(label)\"" }

    func mayOpen(_ token: SlotToken) -> Bool { token.name.text == label }

    func wrapsAlone(_ former: SlotToken) -> Bool { isPublic }

    func wrap(_ secret: SecretBytes, for store: StoreID, replacing former: SlotToken?) throws -> WrappedSecret {
        try state.withLock { state in
            state.wraps += 1
            if !isPublic, let failure = state.failure { throw failure }
        }
        let blob = secret.withBytes { bytes in [mask] + bytes.map { $0 ^ mask } }
        guard let token = SlotToken(name: try SlotLabel(label), blob: blob) else { throw Self.absent }
        return WrappedSecret(token)
    }

    func unwrap(_ token: SlotToken, of slot: TokenSlot) throws -> SecretBytes? {
        let losesSecrets = try state.withLock { state in
            state.unwraps += 1
            if let failure = state.failure { throw failure }
            return state.losesSecrets
        }
        guard token.blob.first == mask else {
            if state.withLock({ $0.knowsOthers }) { throw OtherDevice(Self.other) }
            return nil
        }
        return SecretBytes(copying: token.blob.dropFirst().map { losesSecrets ? 0 : $0 ^ mask })
    }

    var wraps: Int { state.withLock { $0.wraps } }
    var unwraps: Int { state.withLock { $0.unwraps } }
    func fail(with error: StoreError?) { state.withLock { $0.failure = error } }

    static let other = StoreError(
        .wrongKey, what: "The device gave no key.", why: "The slot is of another one.", remedy: "Use that one.")
    static let absent = StoreError(
        .keyMissing, what: "The device is absent.", why: "It was unplugged.", remedy: "Plug it in.")
}
