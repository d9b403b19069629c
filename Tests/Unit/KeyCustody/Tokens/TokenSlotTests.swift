import Foundation
import StoreCrypto
import StorePlatform
import Testing

@testable import KeyCustody

/// Keyslots whose secret a device keeps.
@Suite("Keyslots of devices")
struct TokenSlotTests {
    private func code(_ body: () throws -> Void) -> StoreError.Code? {
        do {
            try body()
            return nil
        } catch {
            return (error as? StoreError)?.code
        }
    }

    /// A store with raw key 0 and a slot of each device.
    private func store(_ devices: DeviceDouble...) throws -> (files: SidecarFiles, folder: TemporaryFolder) {
        let folder = try TemporaryFolder()
        let files = SidecarFiles(databasePath: folder.file("app.db"))
        let made = try SlotFixture.store([SlotFixture.keyFile(0)])
        try files.write(made.sidecar, keys: made.keys)
        for device in devices { try add(device, to: files) }
        return (files, folder)
    }

    private func add(_ device: DeviceDouble, to files: SidecarFiles) throws {
        let owner = try KeyAdministration.unlock(databasePath: files.databasePath, with: SlotFixture.rawKey(0))
        try owner.add(NewSlot(KeySource.token(device).read()))
    }

    private func open(_ files: SidecarFiles, _ source: KeySource) throws -> Keyslot? {
        try KeyAdministration.unlock(databasePath: files.databasePath, with: source.read()).keys.openedBy
    }

    private func claimed(_ files: SidecarFiles) throws -> Sidecar { try #require(files.read().newestClaimed) }

    @Test("a slot of each kind opens by its device, and by no other")
    func opens() throws {
        let devices = [Keyslot.Kind.plugin, .pkcs11, .tpm2].map { DeviceDouble($0) }
        let (files, folder) = try store(devices[0], devices[1], devices[2])
        defer { withExtendedLifetime(folder) {} }
        for (index, device) in devices.enumerated() {
            #expect(try open(files, .token(device))?.id == UInt64(index + 2))
            #expect(device.wraps == 1 && device.unwraps == 2, "once to test the slot, once to open the store")
        }
        #expect(code { _ = try open(files, .token(DeviceDouble(mask: 1))) } == .wrongKey)
        let other = DeviceDouble(label: "other")
        #expect(code { _ = try open(files, .token(other)) } == .wrongKey)
        #expect(other.unwraps == 0, "a plugin of another name is not asked")
    }

    @Test("passphrases and raw keys ask no device, and a device asks for no passphrase")
    func kinds() throws {
        let device = DeviceDouble()
        let (files, folder) = try store(device)
        defer { withExtendedLifetime(folder) {} }
        let asked = device.unwraps
        #expect(try open(files, .rawKey(Fixture.keyBytes))?.id == 1)
        #expect(code { _ = try open(files, .passphrase("words")) } == .wrongKey)
        #expect(device.unwraps == asked)
    }

    @Test("a device is asked once by a source, however often the store is opened, and again by another source")
    func asksOnce() throws {
        let device = DeviceDouble()
        let (files, folder) = try store(device)
        defer { withExtendedLifetime(folder) {} }
        let asked = device.unwraps
        let source = KeySource.token(device)
        for _ in 1...3 { #expect(try open(files, source)?.id == 2) }
        #expect(device.unwraps == asked + 1)
        #expect(try open(files, .token(device))?.id == 2 && device.unwraps == asked + 2)
    }

    @Test("a refusal is not repeated in one reading, since a token counts wrong PINs, and names the other slots")
    func refusal() throws {
        let device = DeviceDouble()
        let (files, folder) = try store(device)
        defer { withExtendedLifetime(folder) {} }
        device.fail(with: DeviceDouble.absent)
        let asked = device.unwraps
        let source = KeySource.token(device)
        let secret = try source.read()
        for _ in 1...2 {
            do {
                _ = try KeyAdministration.unlock(databasePath: files.databasePath, with: secret)
                Issue.record("it opened")
            } catch let error as StoreError {
                #expect(error.code == .keyMissing && error.remedy.contains("1 (key-file)"), "\(error)")
            }
        }
        #expect(device.unwraps == asked + 1 && secret.wasRefusedByDevice)
        device.fail(with: nil)
        #expect(try open(files, source)?.id == 2)
    }

    @Test("a wrong PIN is tried on one slot, however many the token has")
    func wrongPIN() throws {
        let device = DeviceDouble()
        let (files, folder) = try store(device, device)
        defer { withExtendedLifetime(folder) {} }
        let asked = device.unwraps
        device.fail(with: StoreError(.wrongKey, what: "No key.", why: "The PIN is wrong.", remedy: "Check it."))
        #expect(code { _ = try open(files, .token(device)) } == .wrongKey)
        #expect(device.unwraps == asked + 1)
    }

    // Story: the slot of a second machine's TPM, which is newer, kept the first machine out.
    @Test("a slot of another device of the kind is passed over, and is named if no other one opens")
    func otherDevice() throws {
        let (own, other) = (DeviceDouble(.tpm2, mask: 1), DeviceDouble(.tpm2, mask: 2))
        for device in [own, other] { device.state.withLock { $0.knowsOthers = true } }
        let (files, folder) = try store(own, other)
        defer { withExtendedLifetime(folder) {} }
        #expect(try open(files, .token(own))?.id == 2)
        #expect(try open(files, .token(other))?.id == 3)
        let third = DeviceDouble(.tpm2, mask: 3)
        third.state.withLock { $0.knowsOthers = true }
        do {
            _ = try open(files, .token(third))
            Issue.record("it opened")
        } catch let error as StoreError {
            #expect(error.why == DeviceDouble.other.why)
        }
    }

    @Test("a device that does not give back what it was given gets no slot")
    func untested() throws {
        let device = DeviceDouble()
        device.state.withLock { $0.losesSecrets = true }
        let (files, folder) = try store()
        defer { withExtendedLifetime(folder) {} }
        let before = try claimed(files)
        #expect(code { try add(device, to: files) } == .invalidKey)
        #expect(try claimed(files) == before)
    }

    @Test("the sidecar has version 3 while a slot needs it, and version 2 again after the last one is removed")
    func version() throws {
        let (files, folder) = try store(DeviceDouble())
        defer { withExtendedLifetime(folder) {} }
        #expect(try claimed(files).formatVersion == 3)
        let owner = try KeyAdministration.unlock(databasePath: files.databasePath, with: SlotFixture.rawKey(0))
        try owner.remove(2)
        #expect(try claimed(files).formatVersion == 2)
        let text = try String(contentsOfFile: files.mainPath, encoding: .utf8)
        #expect(text.hasPrefix("{\"format\":\"cipherstore-sidecar\",\"version\":2}\n") && !text.contains("token"))
    }

    @Test("a token, a name or a kind that was changed opens nothing, and is found")
    func bound() throws {
        let (files, folder) = try store(DeviceDouble(label: "double"))
        defer { withExtendedLifetime(folder) {} }
        let text = try String(contentsOfFile: files.mainPath, encoding: .utf8)
        let blob = try #require(try claimed(files).slots[1].token?.blob)
        let hex = Hex.text(blob)
        for (from, to) in [
            (hex, hex.dropLast() + (hex.last == "0" ? "1" : "0")), ("\"name\":\"double\"", "\"name\":\"doubles\""),
            ("\"kind\":\"plugin\"", "\"kind\":\"pkcs11\""),
        ] {
            let forged = Array(text.replacing(from, with: String(to)).utf8)
            let parsed = try UnauthenticatedSidecar.parse(forged)
            let slot = parsed.claimed.slots[1]
            let device = DeviceDouble(slot.kind, label: slot.token?.name.text ?? "")
            #expect(try KeySource.token(device).read().unlock(parsed.claimed) == nil, "\(from)")
            let keys = try #require(try SlotFixture.rawKey(0).unlock(parsed.claimed))
            #expect(try parsed.authenticate(keys) == .forged)
        }
    }

    @Test("no changed byte of a sidecar with a token is taken for genuine")
    func everyByte() throws {
        let (files, folder) = try store(DeviceDouble())
        defer { withExtendedLifetime(folder) {} }
        let bytes = try Files.contents(of: files.mainPath, limitBytes: 65_536)
        let genuine = try claimed(files)
        let keys = try #require(try SlotFixture.rawKey(0).unlock(genuine))
        for index in bytes.indices {
            var changed = bytes
            changed[index] ^= index.isMultiple(of: 2) ? 1 : 2
            guard let parsed = try? UnauthenticatedSidecar.parse(changed) else { continue }
            #expect(try parsed.authenticate(keys) != .genuine(genuine), "byte \(index)")
        }
    }

    @Test("a device alone makes no store, opens no direct store, and has no key for an invitation")
    func alone() throws {
        let folder = try TemporaryFolder()
        let secret = try KeySource.token(DeviceDouble()).read()
        let cache = SidecarCache(databasePath: folder.file("new.db"))
        #expect(
            code {
                _ = try cache.create(secret, salt: Fixture.salt(), settings: .plaintextHeader)
            } == .keyMissing)
        #expect(code { _ = try secret.unlock(Fixture.sidecar()) } == .modeConflict)
        #expect(code { _ = try SourceKey(of: secret, purpose: "test") } == .modeConflict)
        #expect(secret.rawDataKey == nil)
    }

    @Test("the tokens of a store are bounded together, so that a rotation has room for both tables")
    func room() throws {
        let name = try SlotLabel("double")
        #expect(SlotToken(name: name, blob: []) == nil)
        #expect(SlotToken(name: name, blob: Array(repeating: 0, count: 4097)) == nil)
        let wrapped = WrappedKey(nonce: Array(repeating: 0, count: 12), sealed: Array(repeating: 0, count: 48))
        func slots(_ bytes: [Int]) throws -> [Keyslot] {
            try bytes.enumerated().map { index, bytes in
                Keyslot(
                    id: UInt64(index + 1), kind: .plugin, created: 1, label: .none, derivation: .hkdf,
                    salt: try Fixture.salt(), wrapped: wrapped,
                    token: SlotToken(name: name, blob: Array(repeating: 7, count: bytes)))
            }
        }
        #expect(SlotTable(slots: try slots([4096, 2048]), nextID: 3) != nil)
        #expect(SlotTable(slots: try slots([4096, 2049]), nextID: 3) == nil)
    }

    @Test("the longest tables of a rotation fit into the file")
    func longest() throws {
        let made = try SlotFixture.store([SlotFixture.keyFile(0)])
        guard case .slots(let master, _) = made.keys else { return }
        let text = String(repeating: "x", count: 64)
        let slots = try (1...UInt64(32)).map { id in
            let token = SlotToken(name: try SlotLabel(text), blob: Array(repeating: 0xff, count: 192))
            let salt = try Fixture.salt()
            let context = WrappingContext.slot(
                id, kind: .pkcs11, derivation: .hkdf, salt: salt, token: token, storeID: made.sidecar.storeID)
            return Keyslot(
                id: id, kind: .pkcs11, created: 999_999_999_999_999_999, label: try SlotLabel(text),
                derivation: .hkdf, salt: salt,
                wrapped: try WrappedKey(master.secret, under: SecretBytes.random(count: 32), context), token: token)
        }
        let table = try #require(SlotTable(slots: slots, nextID: 999_999_999_999_999_999))
        var sidecar = made.sidecar
        var slotted = try #require(sidecar.slotted)
        slotted.table = table
        sidecar.scheme = .slots(slotted)
        let rotating = try sidecar.rotating(
            to: try Fixture.dataKey(0x77), salt: try Fixture.salt(0x66), keys: made.keys, next: made.keys, table: table,
            now: 999_999_999_999_999_999)
        #expect(try rotating.encoded(keys: made.keys, next: made.keys).count <= CustodyLimits.sidecarBytes)
    }

    @Test("a renewal of the master key gives a device a new secret, with its help or, by a public key, without it")
    func renewal() throws {
        let (there, away) = (DeviceDouble(label: "there"), DeviceDouble(label: "away", mask: 7, isPublic: true))
        let (files, folder) = try store(there, away)
        defer { withExtendedLifetime(folder) {} }
        away.fail(with: DeviceDouble.absent)
        let before = try claimed(files)
        let former = try #require(try SlotFixture.rawKey(0).unlock(before))
        guard case .slots(let master, _) = former else { return }
        let next = try MasterKey.random()
        func renew(_ secrets: [Secret], provingEach: Bool = false) throws -> SlotRenewal {
            try SlotRenewal(
                of: before, holding: master, keeping: secrets, provingEach: provingEach, master: next,
                databasePath: files.databasePath)
        }
        let secrets = try [SlotFixture.rawKey(0), KeySource.token(there).read(), KeySource.token(away).read()]
        let renewal = try renew(secrets)
        #expect(renewal.kept.map(\.id) == [1, 2, 3] && renewal.dropped.isEmpty)
        for (old, new) in zip(before.slots.dropFirst(), renewal.table.slots.dropFirst()) {
            #expect(old.token != new.token && old.salt != new.salt && old.label == new.label)
        }
        // Story: --drop-other-slots kept the slot of a thief, whose public key was enough to renew it.
        #expect(code { _ = try renew(secrets, provingEach: true) } == .keyMissing)
        let others = try [SlotFixture.rawKey(0), KeySource.token(DeviceDouble(label: "away", mask: 8)).read()]
        #expect(code { _ = try renew(others, provingEach: true) } == .wrongKey)
        away.fail(with: nil)
        for device in [there, away] {
            let slot = try #require(renewal.table.slots.first { $0.token.map(device.mayOpen) ?? false })
            let opened = try slot.open(KeySource.token(device).read(), before.storeID)
            #expect(opened?.isEqual(to: next) == true)
        }
        there.fail(with: DeviceDouble.absent)
        #expect(code { _ = try renew([KeySource.token(there).read()]) } == .keyMissing)
        #expect(code { _ = try renew([KeySource.token(DeviceDouble(label: "x")).read()]) } == .wrongKey)
    }
}
