import Foundation
import StoreCrypto
import StorePlatform
import Testing

@testable import KeyCustody

@Suite("Sidecar files")
struct SidecarFilesTests {
    let folder: TemporaryFolder
    let files: SidecarFiles
    let key: DataKey

    init() throws {
        folder = try TemporaryFolder()
        files = SidecarFiles(databasePath: folder.file("app.db"))
        key = try Fixture.dataKey()
    }

    private func choose(_ key: DataKey? = nil) throws -> AuthenticatedSidecar? {
        try files.choose(files.read()) { _, _ in key ?? self.key }
    }

    private func failure(_ key: DataKey? = nil) -> StoreError? {
        #expect(throws: StoreError.self) { _ = try choose(key) }
    }

    private func put(_ sidecar: Sidecar, in copy: SidecarCopy, key: DataKey? = nil) throws {
        try files.write(sidecar.encoded(dataKey: key ?? self.key), to: copy)
    }

    private func put(_ text: String, in copy: SidecarCopy) throws { try files.write(text.bytes, to: copy) }

    private func content(_ path: String) throws -> String { try Files.contents(of: path, limitBytes: 1 << 20).text }

    /// Changes a text in one file, as somebody without the key would.
    private func forge(_ copy: SidecarCopy, _ field: String, _ replacement: String) throws {
        let text = try content(files.path(of: copy))
        let forged = text.replacingOccurrences(of: field, with: replacement)
        #expect(forged != text)
        try put(forged, in: copy)
    }

    @Test("a sidecar is written twice and read back without a note")
    func write() throws {
        let sidecar = try Fixture.sidecar()
        try files.write(sidecar, dataKey: key)
        let choice = try #require(try choose())
        #expect(choice.sidecar == sidecar && choice.copy == .main && choice.notes.isEmpty)
        #expect(try content(files.mainPath) == content(files.backupPath))
        #expect(try folder.names() == ["app.db-sidecar", "app.db-sidecar.bak"])
    }

    @Test("without any file there is no choice, and no key is asked for")
    func absent() throws {
        let copies = files.read()
        #expect(copies.areAbsent)
        let choice = try files.choose(copies) { _, _ in throw CancellationError() }
        #expect(choice == nil)
    }

    @Test("both files take the permissions of the database")
    func permissions() throws {
        try Data().write(to: URL(fileURLWithPath: files.databasePath))
        #expect(chmod(files.databasePath, 0o660) == 0)
        try files.write(Fixture.sidecar(), dataKey: key)
        for copy in SidecarCopy.allCases { #expect(try Files.status(of: files.path(of: copy))?.permissions == 0o660) }
    }

    // Every state that a change leaves when it is cut: nothing done, one file done, both done.
    @Test("a change that is cut anywhere leaves a store that opens, and the next opener completes it")
    func cutChange() throws {
        let old = try Fixture.sidecar(generation: 7, state: .creating)
        let new = old.next(.ready)
        for (main, backup) in [(old, old), (new, old), (new, new)] {
            try put(main, in: .main)
            try put(backup, in: .backup)
            let choice = try #require(try choose())
            #expect(choice.sidecar == main)
            #expect(choice.notes == (main == backup ? [] : [.stale(.backup, generation: 7, current: 8)]))
            #expect(choice.notes.allSatisfy { !$0.isSuspicious })
            #expect(try files.repair(choice, keyOpensDatabase: false) == (main == backup ? [] : [.backup]))
            #expect(try choose()?.notes == [])
            #expect(try content(files.mainPath) == content(files.backupPath))
        }
    }

    @Test("a creation that is cut after its first file goes on with the same salt")
    func cutCreation() throws {
        let sidecar = try Sidecar.creating(settings: .plaintextHeader)
        try put(sidecar, in: .main)
        let choice = try #require(try choose())
        #expect(choice.sidecar == sidecar && choice.notes == [.missing(.backup)])
        try files.repair(choice, keyOpensDatabase: false)
        #expect(try choose()?.notes == [])
    }

    @Test("a temporary file of a writer that was killed does no harm")
    func leftover() throws {
        try files.write(Fixture.sidecar(), dataKey: key)
        try Data("{\"form".utf8).write(to: URL(fileURLWithPath: files.mainPath + ".tmp-2147483646-00112233"))
        #expect(try choose()?.notes == [])
    }

    @Test("a change that fails at its first file changes nothing", .enabled(if: getuid() == 0, "needs root"))
    func failedChange() async throws {
        let old = try Fixture.sidecar(generation: 7)
        try files.write(old, dataKey: key)
        #expect(chmod(folder.path, 0o755) == 0 && chmod(files.mainPath, 0o644) == 0)
        await #expect(processExitsWith: .success) { [path = files.databasePath as String] in
            guard setuid(65534) == 0 else { exit(2) }
            do {
                let next = try Fixture.sidecar(generation: 8)
                try SidecarFiles(databasePath: path).write(next, dataKey: Fixture.dataKey())
                exit(3)
            } catch let error as SystemError where error.isPermission {}
        }
        #expect(try choose()?.sidecar == old && choose()?.notes == [])
    }

    @Test("a main copy that is lost, damaged or forged is replaced by the backup, and kept aside")
    func restored() throws {
        let sidecar = try Fixture.sidecar()
        let text = try sidecar.encoded(dataKey: key).text
        let forged = text.replacingOccurrences(of: "\"epoch\":1", with: "\"epoch\":2")
        let damaged = String(text.dropLast())
        let cases: [(content: String?, note: SidecarNote)] = [
            (nil, .missing(.main)), (forged, .forged(.main)),
            (damaged, .damaged(.main, .malformed(line: 5, expected: "the end of the line"))),
            ("", .damaged(.main, .empty)),
            (String(repeating: "x", count: 1 << 20), .damaged(.main, .tooLong(limitBytes: 65_536))),
        ]
        for (content, note) in cases {
            try files.write(sidecar, dataKey: key)
            if let content { try put(content, in: .main) } else { try Files.remove(files.mainPath) }
            let choice = try #require(try choose())
            #expect(choice.sidecar == sidecar && choice.copy == .backup)
            #expect(choice.notes == [.restoredFromBackup, note])
            #expect(try files.repair(choice, keyOpensDatabase: false) == [.main])
            #expect(try choose()?.notes == [])
            if let content { #expect(try self.content(files.setAsidePath(of: .main)) == content) }
        }
    }

    @Test("a damaged or forged backup is noticed while the main copy is good")
    func badBackup() throws {
        try files.write(Fixture.sidecar(), dataKey: key)
        try forge(.backup, "\"epoch\":1", "\"epoch\":2")
        #expect(try choose()?.notes == [.forged(.backup)])
        try put("nonsense", in: .backup)
        let notes = try #require(try choose()).notes
        #expect(notes.count == 1 && !notes[0].isSuspicious)
    }

    @Test("a forged file never wins by a higher generation")
    func forgedGeneration() throws {
        try files.write(Fixture.sidecar(), dataKey: key)
        try forge(.main, "\"generation\":3", "\"generation\":999")
        let choice = try #require(try choose())
        #expect(choice.sidecar.generation == 3 && choice.notes == [.restoredFromBackup, .forged(.main)])
        #expect(choice.notes[1].isSuspicious)
    }

    @Test("an old main copy that was put back alone does not count, and is reported as suspicious")
    func rollback() throws {
        try put(Fixture.sidecar(generation: 3), in: .main)
        try put(Fixture.sidecar(generation: 5), in: .backup)
        let choice = try #require(try choose())
        #expect(choice.sidecar.generation == 5)
        #expect(choice.notes == [.restoredFromBackup, .stale(.main, generation: 3, current: 5)])
        #expect(choice.notes.contains { $0.isSuspicious })
        #expect(choice.sidecar.isRolledBack(storeRemembersGeneration: 6))
    }

    @Test("no copy left, both damaged, both forged and a wrong key are four different errors")
    func hopeless() throws {
        let text = try Fixture.sidecar().encoded(dataKey: key).text
        try files.write(Fixture.sidecar(), dataKey: key)
        #expect(failure(try Fixture.dataKey(1))?.code == .wrongKey)
        for copy in SidecarCopy.allCases { try forge(copy, "\"epoch\":1", "\"epoch\":2") }
        #expect(failure()?.code == .sidecarForged)
        #expect(failure(try Fixture.dataKey(1))?.code == .wrongKey)
        for copy in SidecarCopy.allCases { try put(String(text.dropLast(3)), in: copy) }
        let damaged = failure()
        #expect(damaged?.code == .sidecarDamaged && damaged?.why.contains("line 5") == true)
        try Files.remove(files.backupPath)
        #expect(failure()?.code == .sidecarDamaged)
        #expect(try content(files.mainPath) == String(text.dropLast(3)))
    }

    @Test("a copy that cannot be read is a system error when nothing else is left, and a note otherwise")
    func unreadable() throws {
        try FileManager.default.createDirectory(atPath: files.mainPath, withIntermediateDirectories: true)
        #expect(throws: SystemError.self) { _ = try choose() }
        try put(Fixture.sidecar(), in: .backup)
        let choice = try #require(try choose())
        guard case .unreadable(.main, _) = choice.notes.last else {
            Issue.record("unexpected: \(choice.notes)")
            return
        }
        #expect(try files.repair(choice, keyOpensDatabase: true) == [])
    }

    @Test("a copy of a later version stops the opening and is not touched")
    func later() throws {
        try files.write(Fixture.sidecar(), dataKey: key)
        let lines = "\"version\":4}\n{\"record\":\"shop\""
        try forge(.main, "\"version\":1}\n{\"record\":\"store\"", lines)
        let error = failure()
        #expect(error?.code == .sidecarAhead && error?.why.contains("version 4") == true)
        #expect(try content(files.mainPath).contains(lines))
    }

    // A rotation of a direct store, cut between its files: the backup still fits the old key. Restoring it would
    // destroy the only copy of the new salt.
    @Test("a copy that fits another key is replaced only when the database proved the key")
    func otherKey() throws {
        let new = try Fixture.sidecar(generation: 8, salt: 0x55).encoded(dataKey: Fixture.dataKey(9)).text
        try put(new, in: .main)
        try put(Fixture.sidecar(generation: 7), in: .backup)
        let choice = try #require(try choose())
        #expect(choice.notes == [.restoredFromBackup, .otherKey(.main)])
        #expect(try files.repair(choice, keyOpensDatabase: false) == [])
        #expect(try content(files.mainPath) == new)
        #expect(try files.repair(choice, keyOpensDatabase: true) == [.main])
        #expect(try content(files.setAsidePath(of: .main)) == new)
        #expect(try choose()?.notes == [])
    }

    @Test("the sidecar of another store with another key is a wrong key, one with the same key is foreign")
    func swapped() throws {
        let other = try Fixture.sidecar(id: 0x11, salt: 0x22)
        try files.write(other, dataKey: Fixture.dataKey(9))
        #expect(failure()?.code == .wrongKey)
        try put(Fixture.sidecar(), in: .main)
        try put(other, in: .backup)
        let error = failure()
        #expect(error?.code == .foreignSidecar && error?.remedy.contains(files.backupPath) == true)
    }

    @Test("two genuine copies of one generation that differ are reported, and the main one counts")
    func differing() throws {
        try put(Fixture.sidecar(state: .ready), in: .main)
        try put(Fixture.sidecar(state: .creating), in: .backup)
        let choice = try #require(try choose())
        #expect(choice.copy == .main && choice.notes == [.differing])
        #expect(try files.repair(choice, keyOpensDatabase: true) == [.backup])
        #expect(try choose()?.notes == [])
    }

    @Test("copies with one salt and the same settings cost one derivation, others one each")
    func derivations() throws {
        var asked: [Salt] = []
        func count() throws {
            asked = []
            _ = try files.choose(files.read()) { salt, _ in
                asked.append(salt)
                return key
            }
        }
        try put(Fixture.sidecar(generation: 3), in: .main)
        try put(Fixture.sidecar(generation: 2), in: .backup)
        try count()
        #expect(asked.count == 1)
        try put(Fixture.sidecar(generation: 2, salt: 1), in: .backup)
        try count()
        #expect(try asked == [Fixture.salt(), Fixture.salt(1)])
    }

    @Test("whatever byte of the main copy is flipped, the store opens with the right salt")
    func everyByte() throws {
        let sidecar = try Fixture.sidecar()
        let bytes = try sidecar.encoded(dataKey: key)
        let backup = SidecarContent.present(try UnauthenticatedSidecar.parse(bytes))
        for position in bytes.indices {
            for mask in [0x01, 0x02, 0x20, 0x80] as [UInt8] {
                var flipped = bytes
                flipped[position] ^= mask
                let main: SidecarContent
                do {
                    main = .present(try UnauthenticatedSidecar.parse(flipped))
                } catch {
                    main = .damaged(error)
                }
                let choice = try files.choose(SidecarCopies(main: main, backup: backup)) { _, _ in key }
                #expect(choice?.sidecar == sidecar && choice?.copy == .backup, "byte \(position), mask \(mask)")
            }
        }
    }

    @Test("messages of errors and notes carry no key and no salt")
    func messages() throws {
        try files.write(Fixture.sidecar(), dataKey: key)
        let wrong = failure(try Fixture.dataKey(1))
        for text in [Hex.text(Fixture.keyBytes), try Fixture.salt().hex] {
            #expect(!"\(String(describing: wrong))".contains(text))
        }
        let notes: [SidecarNote] = [.restoredFromBackup, .forged(.main), .differing, .otherKey(.backup)]
        for note in notes { #expect(note.description.contains("sidecar")) }
    }
}

extension SidecarFiles {
    /// Finds the version of a direct store that counts, by what a salt and settings derive.
    fileprivate func choose(
        _ copies: SidecarCopies, deriveKey: (Salt, CipherSettings) throws -> DataKey
    ) throws -> AuthenticatedSidecar? {
        try choose(copies) { claimed in
            guard case .direct = claimed.scheme else { return nil }
            return .direct(try deriveKey(claimed.salt, claimed.settings))
        }
    }
}
