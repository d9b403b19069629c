import Foundation
import StoreCrypto
import StorePlatform
import Testing

@testable import KeyCustody

/// Every pair of files that a cut rotation, or somebody who puts old files back, can leave.
@Suite("Copies of a sidecar during a rotation")
struct RotationCopiesTests {
    /// The versions that a rotation passes, in their order.
    private struct Versions {
        let fixture: RotationFixture
        let ready, rotating, switching, rotated, abandoned: [UInt8]

        init(_ kind: RotationCase) throws {
            fixture = try RotationFixture(kind)
            ready = try fixture.content(.main)
            try fixture.journal.begin(kind.mode())
            rotating = try fixture.content(.main)
            let begun = try #require(try fixture.journal.pending())
            try fixture.journal.abandon()
            abandoned = try fixture.content(.main)
            try fixture.put(main: rotating, backup: rotating)
            let again = RotationJournal(databasePath: fixture.files.databasePath) { begun.keys(of: $0) }
            try again.announceSwitch(pages: 3)
            switching = try fixture.content(.main)
            try again.complete()
            rotated = try fixture.content(.main)
        }

        /// Main copy, backup, and the epoch that the store has once it is recovered.
        var cuts: [(main: [UInt8]?, backup: [UInt8]?, epoch: UInt64)] {
            [
                (ready, ready, 1), (rotating, ready, 1), (rotating, rotating, 1), (switching, rotating, 2),
                (switching, switching, 2), (rotated, switching, 2), (rotated, rotated, 2), (abandoned, rotating, 1),
                (abandoned, abandoned, 1),
                // One of the two is lost.
                (nil, ready, 1), (nil, rotating, 1), (nil, switching, 2), (nil, rotated, 2), (rotating, nil, 1),
                (switching, nil, 2), (rotated, nil, 2),
                // An old main copy was put back: the backup counts.
                (ready, rotating, 1), (rotating, switching, 2), (switching, rotated, 2), (ready, rotated, 2),
            ]
        }
    }

    @Test(
        "whatever a cut leaves, a key that goes on recovers it to exactly one epoch, and then every key of it opens",
        arguments: RotationCase.allCases)
    func recovered(kind: RotationCase) throws {
        let versions = try Versions(kind)
        let fixture = versions.fixture
        for (number, cut) in versions.cuts.enumerated() {
            try fixture.put(main: cut.main, backup: cut.backup)
            // A direct store that has its new key is opened by that one; else the present key sees everything.
            let isRotated = cut.main == versions.rotated || cut.backup == versions.rotated
            // Of a compromised store put back to before the rotation the kept key still opens both.
            let key: UInt8 = kind == .direct && isRotated ? 7 : RotationCase.keeper
            do {
                try fixture.recover(with: key)
            } catch {
                Issue.record("cut \(number): \(error)")
                continue
            }
            if let choice = try fixture.files.choose(
                fixture.files.read(),
                unlock: { claimed in
                    try SlotFixture.rawKey(key == 0 && cut.epoch == 2 && kind == .direct ? 7 : key).unlock(claimed)
                })
            {
                try fixture.files.repair(choice, keyOpensDatabase: true)
            }
            #expect(try fixture.content(.main) == fixture.content(.backup), "cut \(number)")
            #expect(try fixture.state() == .ready, "cut \(number)")
            let opening = cut.epoch == 1 ? kind.before : kind.after
            for key: UInt8 in 0...8 {
                let expected = opening.contains(key) ? cut.epoch : nil
                #expect(try fixture.epoch(openedBy: key) == expected, "cut \(number), raw key \(key)")
            }
        }
    }

    @Test("the backup alone opens at every instant with a key that goes on", arguments: RotationCase.allCases)
    func backupAlone(kind: RotationCase) throws {
        let versions = try Versions(kind)
        for cut in versions.cuts where cut.backup != nil {
            try versions.fixture.put(main: nil, backup: cut.backup)
            let key: UInt8 = kind == .direct && cut.backup == versions.rotated ? 7 : RotationCase.keeper
            let expected: UInt64 = cut.backup == versions.rotated ? 2 : 1
            #expect(try versions.fixture.epoch(openedBy: key) == expected)
        }
    }

    @Test("the holder of a dropped slot undoes a rotation, and cannot complete one")
    func droppedSlot() throws {
        let versions = try Versions(.compromised)
        let fixture = versions.fixture
        try fixture.put(main: versions.rotating, backup: versions.ready)
        let rotation = try #require(try fixture.journal(1).rotation())
        #expect(rotation.present != nil && rotation.next == nil)
        try fixture.recover(with: 1)
        #expect(try fixture.state() == .ready && fixture.epoch(openedBy: 1) == 1)
        try fixture.put(main: versions.switching, backup: versions.switching)
        #expect(storeErrorCode { try fixture.recover(with: 1) } == .rotationPending)
        #expect(try fixture.content(.main) == versions.switching)
        // The main copy is rotated, and the dropped slot cannot tell: it does not bring the old one back.
        try fixture.put(main: versions.rotated, backup: versions.switching)
        #expect(storeErrorCode { try fixture.recover(with: 1) } == .rotationPending)
        let material = try SlotFixture.rawKey(1)
        let choice = try #require(
            try fixture.files.choose(fixture.files.read(), allowsSwitching: true) { try material.unlock($0) })
        try fixture.files.repair(choice, keyOpensDatabase: true)
        #expect(try fixture.content(.main) == versions.rotated)
    }

    @Test("the holder of only the new key of a direct store completes a switch, and undoes nothing")
    func onlyNewKey() throws {
        let versions = try Versions(.direct)
        let fixture = versions.fixture
        try fixture.put(main: versions.rotating, backup: versions.rotating)
        let rotation = try #require(try fixture.journal(7).rotation())
        #expect(rotation.present == nil && rotation.next != nil)
        #expect(storeErrorCode { try fixture.recover(with: 7) } == .rotationPending)
        let material = try SlotFixture.rawKey(7)
        for state in [versions.rotating, versions.switching] {
            try fixture.put(main: state, backup: state)
            #expect(
                storeErrorCode { _ = try fixture.files.choose(fixture.files.read()) { try material.unlock($0) } }
                    == .rotationPending)
        }
        try fixture.recover(with: 7)
        #expect(try fixture.epoch(openedBy: 7) == 2 && fixture.epoch(openedBy: 0) == nil)
    }

    @Test(
        "openers that cannot recover use the present key while pages are copied, and are told during the switch",
        arguments: RotationCase.allCases)
    func byHand(kind: RotationCase) throws {
        let versions = try Versions(kind)
        let fixture = versions.fixture
        let material = try SlotFixture.rawKey(0)
        func choose() throws -> Sidecar? {
            try fixture.files.choose(fixture.files.read()) { try material.unlock($0) }?.sidecar
        }
        try fixture.put(main: versions.rotating, backup: versions.rotating)
        #expect(try choose()?.epoch == 1)
        for (main, backup) in [(versions.switching, versions.rotating), (versions.switching, versions.switching)] {
            try fixture.put(main: main, backup: backup)
            #expect(storeErrorCode { _ = try choose() } == .rotationPending)
        }
    }

    @Test(
        "a sidecar from before the rotation, in both copies, opens no page of the store: its data key is the former one",
        arguments: RotationCase.allCases)
    func rolledBack(kind: RotationCase) throws {
        let versions = try Versions(kind)
        let fixture = versions.fixture
        let next = try #require(try UnauthenticatedSidecar.parse(versions.rotated).claimed as Sidecar?)
        try fixture.put(main: versions.ready, backup: versions.ready)
        let choice = try #require(try fixture.files.choose(fixture.files.read()) { _ in fixture.keys })
        #expect(choice.sidecar.salt != next.salt && choice.sidecar.epoch == 1)
        #expect(choice.sidecar.isRolledBack(storeRemembersGeneration: next.generation))
    }
}
