import Foundation
import StoreCrypto
import StorePlatform
import Synchronization
import Testing

@testable import KeyCustody
@testable import TPM2Keys

@Suite(
    "A TPM as a device of keyslots",
    .enabled(if: SoftwareTPM.isUsable, "needs swtpm and the trait TPM2"))
struct TPM2DeviceTests {
    private let tpm: SoftwareTPM
    private let store: StoreID
    private let secret: SecretBytes

    init() throws {
        tpm = try SoftwareTPM()
        store = try StoreID.random()
        secret = try .random(count: 32)
    }

    private var slot: TokenSlot { TokenSlot(store: store, number: 2, label: .none) }

    private func error(_ body: () throws -> Void) -> StoreError? {
        do {
            try body()
            return nil
        } catch {
            return (error as? OtherDevice)?.error ?? error as? StoreError
        }
    }

    /// A source of a PIN, and how often it was read.
    private func pin(_ text: String) -> (source: KeySource, count: Counter) {
        let count = Counter()
        let source = KeySource.custom("PIN") {
            count.increment()
            return try Passphrase(text)
        }
        return (source, count)
    }

    private final class Counter: Sendable {
        private let count = Mutex(0)
        var value: Int { count.withLock { $0 } }
        func increment() { count.withLock { $0 += 1 } }
    }

    @Test("a token gives its secret back, and says its conditions; no other token is tried")
    func token() throws {
        let device = TPM2Device(pcrs: [7, 11], address: tpm.address)
        let wrapped = try device.wrap(secret, for: store, replacing: nil)
        #expect(wrapped.isTestable && wrapped.token.name.text == "PCRs 7+11" && wrapped.token.blob.count < 2_000)
        #expect(device.mayOpen(wrapped.token) && !device.wrapsAlone(wrapped.token))
        let again = try #require(try device.unwrap(wrapped.token, of: slot))
        #expect(again.isEqual(to: secret))
        let other = try #require(SlotToken(name: .none, blob: [1, 2, 3]))
        #expect(try !device.mayOpen(other) && device.unwrap(other, of: slot) == nil)
        // The slot is renewed with its conditions.
        let renewed = try TPM2Device(address: tpm.address).wrap(secret, for: store, replacing: wrapped.token)
        #expect(renewed.token.name.text == "PCRs 7+11")
    }

    @Test("a PIN is read once, and not before the TPM has proved to be the one that asks for it")
    func pinOnce() throws {
        let (source, count) = pin("4711")
        let device = TPM2Device(asksPIN: true, pin: source, address: tpm.address)
        let wrapped = try device.wrap(secret, for: store, replacing: nil)
        for _ in 0..<2 { #expect(try device.unwrap(wrapped.token, of: slot) != nil) }
        #expect(count.value == 1 && wrapped.token.name.text == "PIN")
        let elsewhere = try SoftwareTPM()
        let (other, otherCount) = pin("4711")
        let moved = error {
            _ = try TPM2Device(pin: other, address: elsewhere.address).unwrap(wrapped.token, of: slot)
        }
        #expect(moved?.code == .wrongKey && moved?.why.contains("another machine") == true && otherCount.value == 0)
        let wrong = error {
            _ = try TPM2Device(pin: pin("0815").source, address: tpm.address).unwrap(wrapped.token, of: slot)
        }
        #expect(wrong?.code == .wrongKey && wrong?.why.contains("refused the PIN") == true)
        let missing = error { _ = try TPM2Device(address: tpm.address).unwrap(wrapped.token, of: slot) }
        #expect(missing?.code == .keyMissing && missing?.why.contains("none was given") == true)
    }

    @Test("an absent TPM is an error with a remedy")
    func absent() throws {
        let failed = error {
            _ = try TPM2Device(address: "device:/dev/none").wrap(secret, for: store, replacing: nil)
        }
        #expect(failed?.code == .keyMissing && failed?.why.contains("no TPM at device:/dev/none") == true)
    }
}
