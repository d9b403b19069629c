import StoreCrypto
import StorePlatform
import Synchronization

/// The device of a key source, with the secrets that it has given: it is asked once for each token.
///
/// Secrets are kept as long as the key source. A refusal is kept until the source is read again: an opening asks for a
/// key more than once, and a token must not count one wrong PIN twice.
package final class TokenSession: Sendable {
    let device: any TokenDevice
    /// Random bytes in place of the bytes of a passphrase or key. They open nothing.
    let placeholder: SecretBytes
    private let onAsk: (@Sendable (String) -> Void)?
    private let state = Mutex(State())

    private struct Known: Hashable {
        let store: StoreID
        let token: SlotToken
    }

    private struct State {
        var secrets: [Known: SecretBytes] = [:]
        var refusals: [Known: any Error] = [:]
    }

    init(_ device: any TokenDevice, onAsk: (@Sendable (String) -> Void)? = nil) {
        self.device = device
        self.onAsk = onAsk
        // Random only to differ from other sessions: a generator that fails gives no key here.
        placeholder =
            (try? SecretBytes.random(count: RawKey.byteCount)) ?? SecretBytes(count: RawKey.byteCount) { _ in }
    }

    /// Forgets refusals: the source is read for another attempt.
    func beginReading() { state.withLock { $0.refusals.removeAll() } }

    /// Whether the device has thrown an error since the source was read.
    var hasRefused: Bool { state.withLock { !$0.refusals.isEmpty } }

    // MARK: Unlocking

    /// The keys that the first fitting slot gives; nil when no slot is of this device.
    ///
    /// - Throws: The first error of the device, if no slot opens; it names the other slots of the store.
    func unlock(_ slots: [Keyslot], _ store: StoreID) throws -> SidecarKeys? {
        var (failure, ofOthers): ((any Error)?, (any Error)?)
        for slot in slots.reversed() where mayOpen(slot) {
            do {
                if let master = try master(in: slot, store) { return .slots(master, openedBy: slot) }
            } catch let other as OtherDevice {
                ofOthers = ofOthers ?? other.error
            } catch {
                failure = failure ?? error
                // A wrong PIN would be counted again for another slot of the same token.
                if (error as? StoreError)?.code == .wrongKey { break }
            }
        }
        guard let failure = failure ?? ofOthers else { return nil }
        throw Self.naming(slots.filter { !mayOpen($0) }, in: failure)
    }

    /// Whether the slot may be of this device.
    func mayOpen(_ slot: Keyslot) -> Bool {
        guard slot.kind == device.kind, let token = slot.token else { return false }
        return device.mayOpen(token)
    }

    /// The master key in a slot; nil when the slot is not of this device.
    func open(_ slot: Keyslot, _ store: StoreID) throws -> MasterKey? {
        try Self.plainly { try master(in: slot, store) }
    }

    /// Throws the error that says why a slot is of another device.
    private static func plainly<Success>(_ work: () throws -> Success) throws -> Success {
        do {
            return try work()
        } catch let other as OtherDevice {
            throw other.error
        }
    }

    /// The same, told apart where the slot is of another device.
    ///
    /// - Throws: ``OtherDevice``; the errors of the device.
    func master(in slot: Keyslot, _ store: StoreID) throws -> MasterKey? {
        guard let token = slot.token,
            let secret = try secret(of: token, TokenSlot(store: store, number: slot.id, label: slot.label))
        else { return nil }
        return try slot.master(of: secret, store)
    }

    private func secret(of token: SlotToken, _ slot: TokenSlot) throws -> SecretBytes? {
        let known = Known(store: slot.store, token: token)
        let (secret, refusal) = state.withLock { ($0.secrets[known], $0.refusals[known]) }
        if let secret { return secret }
        if let refusal { throw refusal }
        do {
            onAsk?("waiting for \(device.name) (slot \(slot.number))")
            guard let secret = try device.unwrap(token, of: slot) else { return nil }
            guard secret.count == RawKey.byteCount else { throw wrongLength() }
            state.withLock { $0.secrets[known] = secret }
            return secret
        } catch {
            state.withLock { $0.refusals[known] = error }
            throw error
        }
    }

    // MARK: Wrapping

    /// A new secret, and its token. Unless the device cannot, it has given the secret back once.
    ///
    /// - Parameter former: The token of the slot that is replaced.
    func make(for store: StoreID, slot number: UInt64, replacing former: SlotToken?) throws -> (SlotToken, SecretBytes)
    {
        let secret = try SecretBytes.random(count: RawKey.byteCount)
        if former.map({ !device.wrapsAlone($0) }) ?? true { onAsk?("waiting for \(device.name)") }
        let wrapped = try device.wrap(secret, for: store, replacing: former)
        if wrapped.isTestable, former.map({ !device.wrapsAlone($0) }) ?? true {
            let slot = TokenSlot(store: store, number: number, label: .none)
            let again = try Self.plainly { try device.unwrap(wrapped.token, of: slot) }
            guard let again, again.isEqual(to: secret) else {
                throw StoreError(
                    .invalidKey, what: "The new keyslot does not open.",
                    why: "The \(device.name) did not give back the secret that it was given.",
                    remedy: "Nothing was changed. Check the device.")
            }
            state.withLock { $0.secrets[Known(store: store, token: wrapped.token)] = secret }
        }
        return (wrapped.token, secret)
    }

    // MARK: Errors

    private func wrongLength() -> StoreError {
        StoreError(
            .invalidKey, what: "The \(device.name) gave no key.", why: "Its answer is not a secret of 32 bytes.",
            remedy: "Check that the device and its keys are those with which the slot was made.")
    }

    /// The error of a device, with the slots that open the store without it.
    private static func naming(_ slots: [Keyslot], in failure: any Error) -> any Error {
        guard let error = failure as? StoreError else { return failure }
        let names = slots.map { slot in
            "\(slot.id) (\(slot.kind.rawValue)" + (slot.label == .none ? ")" : " \"\(slot.label)\")")
        }
        let others =
            names.isEmpty
            ? "No other keyslot opens the store."
            : "Without it these slots open the store: \(names.joined(separator: ", "))."
        return StoreError(error.code, what: error.what, why: error.why, remedy: "\(error.remedy) \(others)")
    }
}
