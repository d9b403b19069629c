import CipherStore
import Foundation
import KeyCustody
import KeyRotation
import Synchronization
import TestKit
import Testing

#if os(Linux)
    // `rename` that failed with ENOSPC, or a failed fsync, when the copy took the database's place ended with "Free
    // space and try again; nothing was lost" and "rotated": 0. By then the new key counted: a user who threw it away
    // had lost a direct store, and "try again" ended with "wrong key". A sidecar whose second copy could not be written
    // was reported the same way.
    /// Every call to the system that `cipherctl rotate` makes from the announcement of the switch on fails, and what is
    /// said - exit code, message, hint, JSON, key log - is compared with what has happened.
    @Suite("Rotations whose calls fail, and what is said of them")
    struct RotationFaultTests {
        /// The store of the rotation, and the call from which on calls fail.
        enum Scene: Sendable, CaseIterable {
            case dataKey, compromised, direct
            /// Rotations that were killed while they copied, or in the switch.
            case resumedCopy, resumedDirectCopy, resumedSwitch, resumedRename, resumedDirectSwitch, resumedDirectRename
            /// Rotations that were killed in the switch, and whose copy is lost.
            case resumedLost, resumedDirectLost

            /// In `make test` one call in so many fails; of the first fault of a direct store, more.
            func step(_ fault: CallFault) -> Int { self == .direct && fault.ordinal == 0 ? 11 : 61 }
            /// Which one of those: the faults of a scene and of its neighbors take different ones.
            func offset(_ fault: CallFault) -> Int { 3 * fault.ordinal + (Self.allCases.firstIndex(of: self) ?? 0) }
        }

        @Test(
            "what is said of a rotation whose call failed is what has happened",
            arguments: [Scene.direct, .dataKey, .compromised], CallFault.all)
        func rotated(scene: Scene, fault: CallFault) throws { try everyCall(scene, fault) }

        @Test(
            "what is said of a resumed rotation whose call failed is what has happened",
            arguments: [Scene.resumedDirectCopy, .resumedCopy], CallFault.all)
        func resumed(scene: Scene, fault: CallFault) throws { try everyCall(scene, fault) }

        @Test(
            "what is said of a resumed switch whose call failed is what has happened",
            arguments: [Scene.resumedDirectSwitch, .resumedDirectRename, .resumedSwitch, .resumedRename],
            CallFault.all)
        func resumedSwitch(scene: Scene, fault: CallFault) throws { try everyCall(scene, fault) }

        // The undoing of a switch whose copy was gone failed on a full disk: "The NEW key counts: keep it. The former
        // one no longer opens the store." It was the only one that did.
        @Test(
            "what is said of a resumed switch whose copy is lost, and whose call failed, is what has happened",
            arguments: [Scene.resumedDirectLost, .resumedLost], CallFault.all)
        func resumedLost(scene: Scene, fault: CallFault) throws { try everyCall(scene, fault) }

        private func everyCall(_ scene: Scene, _ fault: CallFault) throws {
            let place = try RotatedPlace(scene)
            var claims: [RotatedPlace.Claim: Int] = [:]
            let step = scene.step(fault)
            let calls = try Workplace.forEachCall(oneIn: step, offset: scene.offset(fault)) { number in
                let run = try place.rotate(failing: fault, at: number)
                let claim = place.judge(run, "\(scene), call \(number) (\(run.call)), \(fault)")
                if run.wasHit { claims[claim, default: 0] += 1 }
                return run
            }
            // How many there are differs between versions of the libraries.
            #expect(calls > 5)
            #expect(!claims.isEmpty)
            let counts = claims.sorted { $0.key.rawValue < $1.key.rawValue }.map { "\($0.value) \($0.key)" }
            let share = CallFault.judgesAll ? "" : ", one in \(step)"
            print("faults of \(scene): \(calls) calls\(share), \(fault): \(counts.joined(separator: ", "))")
        }
    }

    /// A store that is rotated by cipherctl again and again from the same bytes.
    private struct RotatedPlace {
        /// The report of a run about the store.
        enum Claim: String {
            /// The rotation is done.
            case rotated
            /// The new key counts, and something is left to be done.
            case pending
            /// The next opening for writing completes or undoes the rotation.
            case announced
            /// It is not known which key counts.
            case unknown
            /// The former key counts, and the rotation may be tried again.
            case unchanged
            /// Its copy could not be read, and so the switch was undone: the former key counts.
            case undone
            /// A switch was not resumed, and nothing was changed.
            case untouched
        }

        private static let rows = 40
        private let place: Workplace
        private let scene: RotationFaultTests.Scene
        private var files: [String: Data]
        private var store: String { place.path("s.db") }

        private var isDirect: Bool {
            switch scene {
            case .direct, .resumedDirectCopy, .resumedDirectSwitch, .resumedDirectRename, .resumedDirectLost: true
            case .dataKey, .compromised, .resumedCopy, .resumedSwitch, .resumedRename, .resumedLost: false
            }
        }
        private var isResumed: Bool { crashPlace != nil }
        /// Where the rotation that is resumed was killed.
        private var crashPlace: String? {
            switch scene {
            case .dataKey, .compromised, .direct: nil
            case .resumedCopy, .resumedDirectCopy: "rotationVerified"
            case .resumedSwitch, .resumedDirectSwitch, .resumedLost, .resumedDirectLost: "rotationSwitchingWritten"
            case .resumedRename, .resumedDirectRename: "rotationRenamed"
            }
        }
        private var isSwitching: Bool { isResumed && crashPlace != "rotationVerified" }
        private var isLost: Bool { scene == .resumedLost || scene == .resumedDirectLost }

        private var arguments: [String] {
            var all = ["rotate", store, "--no-backup", "--json", "--raw-key-file", place.key]
            if scene == .compromised { all += ["--compromised", "--drop-other-slots", "--yes"] }
            if isDirect { all += ["--new-raw-key-file", place.path("new.key")] }
            return all
        }

        /// The files of each scene, made once.
        private static let templates = Mutex<[RotationFaultTests.Scene: [String: Data]]>([:])

        init(_ scene: RotationFaultTests.Scene) throws {
            place = try Workplace()
            self.scene = scene
            files = [:]
            try Workplace.write([UInt8](repeating: 0x77, count: 32), to: place.path("new.key"))
            if let made = Self.templates.withLock({ $0[scene] }) {
                files = made
            } else {
                files = try makeFiles()
                Self.templates.withLock { [files] in $0[scene] = files }
            }
        }

        private func makeFiles() throws -> [String: Data] {
            try #require(try place.ctl("create", store, "--scheme", isDirect ? "direct" : "slots").status == 0)
            if !isDirect {
                let added = try place.ctl("key", "add", store, "--new-raw-key-file", place.path("new.key"))
                try #require(added.status == 0, "\(added.errors)")
            }
            let fill =
                "CREATE TABLE t (a); WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < "
                + "\(Self.rows)) INSERT INTO t SELECT hex(randomblob(200)) FROM c"
            try #require(try place.ctl("sql", store, fill, "--write").status == 0)
            if let crashPlace {
                let killed = try place.run(arguments, environment: ["CIPHERSTORE_CRASH_AT": crashPlace])
                try #require(killed.status == 128 + SIGKILL, "\(killed.errors)")
            }
            var files = try Self.snapshot(place)
            if isLost { files["s.db-rotating"] = nil }
            return files
        }

        /// Without the lock file, which only living processes need, and without its temporary file: where every call
        /// fails, that one cannot be removed either.
        private static func snapshot(_ place: Workplace) throws -> [String: Data] {
            var files: [String: Data] = [:]
            for name in try place.names() where name.hasPrefix("s.db") && !name.hasPrefix("s.db-lock") {
                files[name] = try Data(contentsOf: URL(fileURLWithPath: place.path(name)))
            }
            return files
        }

        private func reset() throws { try put(files) }

        private func put(_ files: [String: Data]) throws {
            for name in try place.names() where name.hasPrefix("s.db") { try place.remove(name) }
            for (name, bytes) in files { try bytes.write(to: URL(fileURLWithPath: place.path(name))) }
        }

        /// Calls count from the first one that announces the switch; of a switch that is resumed, all.
        func rotate(failing fault: CallFault, at number: Int) throws -> FaultyRun {
            try reset()
            let announcement = CallFault.Start(pattern: "/s.db-sidecar.tmp-*", kinds: "open", number: isResumed ? 1 : 2)
            return try place.run(
                arguments + (isResumed ? ["--resume"] : []), failing: fault, at: number,
                of: isSwitching ? "/s.db*" : "*", from: isSwitching ? nil : announcement)
        }

        // MARK: What is said

        /// Compares what is said with the store.
        ///
        /// - Returns: What is said.
        func judge(_ run: FaultyRun, _ comment: Comment) -> Claim {
            let claim = claim(run.outcome, comment)
            // A backup copy that still told of the switch once let everybody wait for half a minute.
            #expect(run.duration < .seconds(20), comment)
            do {
                switch claim {
                case .rotated: try expectRotated(run.outcome, comment)
                case .pending: try expectPending(comment)
                case .announced: try expectAnnounced(comment)
                case .unknown: try expectOneKey(comment)
                case .unchanged: try expectUnchanged(comment)
                case .undone: try expectUndone(run.outcome, comment)
                case .untouched: try expectUntouched(comment)
                }
            } catch {
                Issue.record("\(comment): \(error); said: \(run.outcome.errors)")
            }
            return claim
        }

        private func claim(_ outcome: CommandRun.Outcome, _ comment: Comment) -> Claim {
            #expect(outcome.status == outcome.json["exit_code"] as? Int32 ?? -1, comment)
            if outcome.status == 0 {
                #expect(outcome.json["rotated"] as? Int == 1 && outcome.json["failed"] as? Int == 0, comment)
                #expect(!outcome.errors.contains("\"error\""), "\(comment): \(outcome.errors)")
                return .rotated
            }
            #expect(outcome.json["rotated"] as? Int == 0 && outcome.json["failed"] as? Int == 1, comment)
            let error = outcome.lastError
            let text = "\(error["message"] ?? "") \(error["hint"] ?? "")"
            let promisesNothingHappened = ["nothing was lost", "Nothing was changed", "as it was"].contains {
                text.contains($0)
            }
            guard error["code"] as? String == "rotationPending" else {
                let keepsKey = text.contains("keeps its present key")
                if isSwitching {
                    #expect(!text.contains("NEW key counts"), "\(comment): \(text)")
                    return keepsKey ? .undone : .untouched
                }
                #expect(keepsKey, "\(comment): \(text)")
                return .unchanged
            }
            if isSwitching && text.contains("was undone") { return .undone }
            #expect(outcome.status == 69 && !promisesNothingHappened, "\(comment): \(text)")
            #expect(text.contains("for writing"), "\(comment): \(text)")
            if text.contains("It is not known") {
                #expect(!isDirect || text.contains("Keep BOTH keys"), "\(comment): \(text)")
                return .unknown
            }
            if text.contains("after its switch was announced") {
                #expect(!isDirect || text.contains("Keep BOTH keys"), "\(comment): \(text)")
                return .announced
            }
            #expect(!isDirect || text.contains("The NEW key counts: keep it"), "\(comment): \(text)")
            return .pending
        }

        // MARK: What has happened

        private var former: KeySource { .rawKeyFile(path: place.key) }
        /// The key that opens the store after the rotation.
        private var present: KeySource { isDirect ? .rawKeyFile(path: place.path("new.key")) : former }

        private func status() throws -> RotationStatus { try KeyRotation.status(of: store) }

        /// Opens the store for writing, and looks whether everything is there.
        private func epoch(openedBy source: KeySource, _ comment: Comment) throws -> UInt64 {
            let opened = try SharedStore.open(at: store, unlockedBy: source)
            defer { try? opened.close() }
            try opened.write { try $0.execute(sql: "INSERT INTO t (a) VALUES ('later')") }
            let rows = try opened.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t WHERE a <> 'later'") }
            #expect(rows == Self.rows, comment)
            return opened.epoch
        }

        private func expectDropped(_ comment: Comment) {
            let dropped: KeySource? =
                isDirect ? former : scene == .compromised ? .rawKeyFile(path: place.path("new.key")) : nil
            guard let dropped else { return }
            #expect(storeError { try SharedStore.open(at: store, unlockedBy: dropped) } == .wrongKey, comment)
        }

        private func events() throws -> [String] {
            let audit = try KeyLog(databasePath: store).verify()
            return audit.entries.map(\.event)
        }

        private func expectRotated(_ outcome: CommandRun.Outcome, _ comment: Comment) throws {
            let (status, events) = (try status(), try events())
            #expect(status.state == .none && status.epoch == 2, "\(comment): \(status)")
            let stores = outcome.json["stores"] as? [[String: Any]]
            let notices = (stores?.first?["notices"] as? [String] ?? []).joined(separator: "\n")
            // One that was killed in the switch is recovered by another process; else it is the rotation that ends.
            let end = isSwitching ? "rotation-recovered" : "rotation-completed"
            #expect(
                events.last { $0 != "slot-removed" } == end || notices.contains("could not record the event \(end)"),
                "\(comment): \(events)")
            #expect(isSwitching || !events.contains("rotation-recovered"), "\(comment): \(events)")
            #expect(try epoch(openedBy: present, comment) == 2, comment)
            expectDropped(comment)
        }

        /// A user who throws the former key away now must not lose the store when the disk has lost the copy as well.
        private func expectPending(_ comment: Comment) throws {
            if place.exists("s.db-rotating") { try place.remove("s.db-rotating") }
            try expectCompletion(comment)
        }

        /// It is completed, or undone where the copy is lost, and that is why both keys are needed.
        private func expectAnnounced(_ comment: Comment) throws {
            if !isLost {
                let left = try Self.snapshot(place)
                try place.remove("s.db-rotating")
                try expectUndoing(comment)
                try put(left)
                return try expectCompletion(comment)
            }
            try expectUndoing(comment)
            #expect(try status().state == .none && status().epoch == 1, comment)
        }

        /// With the former key it is undone, unless its log was emptied: then it is refused.
        private func expectUndoing(_ comment: Comment) throws {
            let hasWAL = try place.exists("s.db-wal") && !place.bytes("s.db-wal").isEmpty
            let isLogWhole = isLost || hasWAL
            if isDirect {
                let refusal = storeError { try SharedStore.open(at: store, unlockedBy: present) }
                // If the sidecar says already that it was undone, the new key is just another one.
                #expect(
                    refusal == .rotationPending || (isLost && refusal == .wrongKey), "\(comment): \(refusal as Any)")
            }
            if isLogWhole {
                #expect(try epoch(openedBy: former, comment) == 1, comment)
            } else {
                #expect(storeError { try SharedStore.open(at: store, unlockedBy: former) } == .rotationPending, comment)
            }
        }

        private func expectCompletion(_ comment: Comment) throws {
            let before = try events()
            #expect(!before.contains("rotation-completed") && !before.contains("rotation-abandoned"), comment)
            // A disk that cannot be read either hides that the last version of the sidecar has its place.
            let isRecorded = try status().state == .none
            #expect(try epoch(openedBy: present, comment) == 2, comment)
            // The slots that it removes are logged after it.
            #expect(try isRecorded || events().last { $0 != "slot-removed" } == "rotation-recovered", comment)
            expectDropped(comment)
        }

        private func expectOneKey(_ comment: Comment) throws {
            #expect(try !events().contains("rotation-completed"), comment)
            var opened: UInt64
            do {
                opened = try epoch(openedBy: present, comment)
                #expect(!isDirect || opened == 2, comment)
            } catch let error as StoreError where isDirect && error.code == .rotationPending {
                opened = try epoch(openedBy: former, comment)
                #expect(opened == 1, comment)
                #expect(storeError { try SharedStore.open(at: store, unlockedBy: present) } == .wrongKey, comment)
            }
            let status = try status()
            #expect(status.state == .none && status.epoch == opened, "\(comment): \(status)")
            if opened == 2 {
                expectDropped(comment)
            } else if scene == .compromised {
                // The slot that would have been dropped is there.
                #expect(try epoch(openedBy: .rawKeyFile(path: place.path("new.key")), comment) == 1, comment)
            }
        }

        private func expectUnchanged(_ comment: Comment) throws {
            let status = try status()
            #expect(status.state != .switching, "\(comment): \(status)")
            #expect(try !events().contains("rotation-completed"), comment)
            #expect(status.epoch == 1, "\(comment): \(status)")
            #expect(try epoch(openedBy: former, comment) == 1, comment)
            // It may be tried again.
            let again = try place.run(arguments)
            #expect(again.status == 0, "\(comment): \(again.errors)")
            #expect(try epoch(openedBy: present, comment) == 2, comment)
            expectDropped(comment)
        }

        private func expectUndone(_ outcome: CommandRun.Outcome, _ comment: Comment) throws {
            let status = try status()
            #expect(status.state == .none && status.epoch == 1, "\(comment): \(status)")
            let isRecorded = try events().last == "rotation-recovered"
            #expect(isRecorded || outcome.errors.contains("could not record the event rotation-recovered"), comment)
            #expect(try epoch(openedBy: former, comment) == 1, comment)
        }

        /// A resumption that failed before it did anything leaves a switch as it was, and may be tried again.
        private func expectUntouched(_ comment: Comment) throws {
            let left = try Self.snapshot(place)
            let changed = Set(files.keys).union(left.keys).filter { files[$0] != left[$0] }
            #expect(changed.isEmpty, "\(comment): \(changed)")
            let again = try place.run(arguments + ["--resume"])
            if isLost {
                #expect(again.status == 69 && again.errors.contains("was undone"), "\(comment): \(again.errors)")
                return try expectUndone(again, comment)
            }
            #expect(again.status == 0, "\(comment): \(again.errors)")
            #expect(try epoch(openedBy: present, comment) == 2, comment)
            expectDropped(comment)
        }
    }

    extension CommandRun.Outcome {
        /// The last `error` object of standard error.
        var lastError: [String: Any] {
            let lines = errors.split(separator: "\n").map { Data($0.utf8) }
            let objects = lines.compactMap { (try? JSONSerialization.jsonObject(with: $0)) as? [String: Any] }
            return objects.compactMap { $0["error"] as? [String: Any] }.last ?? [:]
        }
    }
#endif
