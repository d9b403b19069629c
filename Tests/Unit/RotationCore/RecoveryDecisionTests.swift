import Testing

@testable import RotationCore

/// Every state in which a rotation can be found, and the action for it.
@Suite("Decisions about a rotation that was cut")
struct RecoveryDecisionTests {
    private static let all = RecoveryFindings.Stage.allCases.flatMap { stage in
        [true, false].flatMap { present in
            [true, false].flatMap { next in
                RecoveryFindings.Copy.allCases.flatMap { copy in
                    RecoveryFindings.DatabaseKey.allCases.flatMap { database in
                        RecoveryFindings.WAL.allCases.map { wal in
                            RecoveryFindings(
                                stage: stage, hasPresentKey: present, hasNextKey: next, copy: copy,
                                database: database, wal: wal)
                        }
                    }
                }
            }
        }
    }

    @Test("the copy takes the database's place only at the switch, with the next key, and when every page was checked")
    func moves() {
        for findings in Self.all where findings.decide() == .moveCopy {
            #expect(findings.stage == .switching && findings.copy == .whole && findings.hasNextKey)
            #expect(findings.database != .next, "a database with the next key is newer than the copy")
        }
        #expect(Self.all.filter { $0.decide() == .moveCopy }.count == 4 * RecoveryFindings.WAL.allCases.count)
    }

    @Test(
        "a rotation is undone only before the switch, with the present key, and never when the database has the next one"
    )
    func undoes() {
        for findings in Self.all where findings.decide() == .undo && findings.stage != .switching {
            #expect(findings.stage == .rotating && findings.hasPresentKey && findings.database != .next)
            #expect(findings.hasNextKey || findings.database == .present)
        }
        #expect(Self.all.contains { $0.decide() == .undo && $0.stage == .rotating })
    }

    @Test("behind the announcement it is undone only when the copy is no use, and database and log have everything")
    func undoesAtSwitch() {
        let undone = Self.all.filter { $0.decide() == .undo && $0.stage == .switching }
        for findings in undone {
            #expect(findings.hasPresentKey && findings.database == .present && findings.wal == .whole)
            #expect([.absent, .unfit, .planted].contains(findings.copy))
        }
        #expect(undone.count == 2 * 3)
        for findings in Self.all where findings.decide() == .checkWAL {
            #expect(findings.stage == .switching && findings.wal == .unchecked && findings.database == .present)
            var checked = findings
            for (wal, action) in [
                (RecoveryFindings.WAL.whole, RecoveryAction.undo), (.emptied, .refuse(.walEmptied)),
                (.unfit, .refuse(.walUnfit)),
            ] {
                checked.wal = wal
                #expect(checked.decide() == action)
            }
        }
    }

    @Test("a rotation is told to be complete only when the database has the next key")
    func completes() {
        for findings in Self.all {
            let isComplete = findings.decide() == .complete
            if isComplete { #expect(findings.database == .next && findings.stage != .none) }
            if findings.database == .next, findings.stage == .switching, findings.hasNextKey { #expect(isComplete) }
        }
    }

    @Test("the copy is checked once, and only where it decides")
    func checks() {
        for findings in Self.all where findings.decide() == .checkCopy {
            #expect(findings.stage == .switching && findings.copy == .unchecked)
            var checked = findings
            checked.copy = .whole
            #expect(checked.decide() == .moveCopy)
            checked.copy = .unfit
            #expect(checked.decide() != .checkCopy && checked.decide() != .moveCopy)
        }
    }

    @Test("without a rotation a copy is a leftover, and what is not a regular file is never touched")
    func leftovers() {
        for findings in Self.all where findings.stage == .none {
            let isFile = findings.copy != .absent && findings.copy != .planted
            #expect(findings.decide() == (isFile ? .removeCopy : .nothing))
        }
    }

    @Test("without the present key a rotation is not undone, and the refusal asks for that key")
    func presentKey() {
        let pending = Self.all.filter { $0.stage != .none && $0.database != .next }
        for findings in pending where !findings.hasPresentKey {
            #expect(findings.decide() != .undo)
            let needsUndoing = findings.stage == .rotating || [.absent, .unfit, .planted].contains(findings.copy)
            #expect((findings.decide() == .refuse(.needsPresentKey)) == needsUndoing, "\(findings)")
        }
    }

    @Test("every refusal says why and what to do")
    func words() {
        for reason in RecoveryAction.Reason.allCases {
            let (why, remedy) = reason.words(copy: "x-rotating")
            #expect(why.hasSuffix(".") && remedy.hasSuffix("."))
            #expect(Self.all.contains { $0.decide() == .refuse(reason) }, "\(reason) never happens")
        }
    }
}
