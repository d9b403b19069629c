import Foundation
import StoreCrypto
import StorePlatform
import Testing

@testable import KeyCustody

@Suite("A pending data key in the sidecar")
struct PendingRotationTests {
    private let made: (sidecar: Sidecar, keys: SidecarKeys)

    init() throws { made = try SlotFixture.store() }

    @Test("a rotation goes through its states, gives a new key and salt, and touches no slot")
    func course() throws {
        let old = try #require(try made.keys.dataKey(of: made.sidecar))
        let rotating = try SlotFixture.rotating(made)
        #expect(rotating.state == .rotating && rotating.epoch == 1 && rotating.salt == made.sidecar.salt)
        #expect(try made.keys.dataKey(of: rotating)?.isEqual(to: old) == true)
        #expect(try made.keys.pendingDataKey(of: rotating)?.isEqual(to: Fixture.dataKey(0x77)) == true)
        let switching = try rotating.announcingSwitch(pages: 7)
        let switched = try #require(switching.successor)
        #expect(switched.state == .ready && switched.epoch == 2 && switched.generation == made.sidecar.generation + 3)
        #expect(try switched.salt == Fixture.salt(0x66) && switched.slots == made.sidecar.slots)
        #expect(try made.keys.dataKey(of: switched)?.isEqual(to: Fixture.dataKey(0x77)) == true)
        #expect(try made.keys.pendingDataKey(of: switched) == nil)
        let abandoned = try rotating.abandoningRotation()
        #expect(abandoned.state == .ready && abandoned.slotted == made.sidecar.slotted)
        for sidecar in [rotating, switching, switched, abandoned] {
            _ = try sidecar.encoded(keys: made.keys)
        }
        #expect(made.sidecar.successor == nil && switched.successor == nil)
        #expect(throws: StoreError.self) { try rotating.announcingSwitch(pages: 0) }
        #expect(throws: StoreError.self) { try switching.abandoningRotation() }
        #expect(throws: StoreError.self) { try SlotFixture.rotating((rotating, made.keys)) }
    }

    @Test("a data key that came from a direct store is random after a rotation")
    func origin() throws {
        var sidecar = made.sidecar
        var slotted = try #require(sidecar.slotted)
        slotted.dataKey = SlottedKeys.Current(created: 1, origin: .direct, wrapped: slotted.dataKey.wrapped)
        sidecar.scheme = .slots(slotted)
        let rotated = try SlotFixture.switching((sidecar, made.keys)).successor
        #expect(rotated?.slotted?.dataKey.origin == .random)
    }

    // CVE-2021-4122: LUKS2 took up a re-encryption that somebody without the keys had written into its header.
    @Test("a pending record that only the holder of one key wrote is forged")
    func bothKeys() throws {
        let rotating = try SlotFixture.rotating(made)
        let parsed = try UnauthenticatedSidecar.parse(rotating.encoded(keys: made.keys))
        let pending = try #require(parsed.seal.pending)

        /// The file with another code under the pending key and the right one under the master key.
        func sealed(_ pendingCode: [UInt8]) throws -> [UInt8] {
            let body = Array(parsed.bytes[..<pending.coveredBytes]) + Sidecar.pendingMacLine(pendingCode)
            return try body + Sidecar.macLine(SidecarSeal.mac(of: body, storeID: rotating.storeID, keys: made.keys))
        }
        #expect(try UnauthenticatedSidecar.parse(sealed(pending.value)).authenticate(made.keys) == .genuine(rotating))
        let body = Array(parsed.bytes[..<pending.coveredBytes])
        for key in [try Fixture.dataKey(1), try #require(try made.keys.dataKey(of: rotating))] {
            let macKey = try key.withSecret {
                try KeyDerivation.hkdf(
                    key: $0, salt: rotating.storeID.bytes, label: SidecarSeal.pendingMacLabel, keyBytes: 32)
            }
            let code = try MessageAuthentication.hmac(.sha256, key: macKey, body)
            #expect(try UnauthenticatedSidecar.parse(sealed(code)).authenticate(made.keys) == .forged)
        }
    }

    @Test("a pending record is refused in the states without one, and missed in those that need one")
    func states() throws {
        let rotating = try SlotFixture.rotating(made)
        var wrong = rotating
        wrong.state = .ready
        #expect(throws: StoreError.self) { try wrong.encoded(keys: made.keys) }
        #expect(throws: StoreError.self) { try made.sidecar.next(.rotating).encoded(keys: made.keys) }
        #expect(throws: StoreError.self) { try made.sidecar.next(.switching).encoded(keys: made.keys) }
    }
}
