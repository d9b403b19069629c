import StoreCrypto
import TestKit
import Testing

@testable import ChangesetSync

/// A repository of two admins and two writers, as the model has it (Tests/SyncModel/epochs.py).
struct Club {
    let x: ReplicaKeys
    let y: ReplicaKeys
    let m: ReplicaKeys
    let p: ReplicaKeys
    var list: MemberList
    var secrets: EpochSecrets

    init() throws {
        (x, y, m, p) = (try .random(), try .random(), try .random(), try .random())
        (list, secrets) = try MemberList.founding(x, named: "x", time: 1)
        _ = try list.admit(y.member(named: "y"), as: .admin, by: x, time: 2)
        _ = try list.admit(m.member(named: "m"), as: .writer, by: x, time: 3)
        _ = try list.admit(p.member(named: "p"), as: .writer, by: x, time: 4)
        _ = try list.beginEpoch(x, &secrets, time: 5)
    }

    var all: [ReplicaKeys] { [x, y, m, p] }

    /// The secrets that a replica has of a list.
    func secrets(of keys: ReplicaKeys, in list: MemberList) throws -> EpochSecrets {
        var secrets = EpochSecrets()
        try secrets.learn(from: list, keys)
        return secrets
    }

    /// A removal, made with this list by an admin with its own secrets.
    func removing(_ member: ReplicaKeys, by admin: ReplicaKeys, from list: MemberList) throws -> MemberList {
        var (changed, own) = (list, try secrets(of: admin, in: list))
        _ = try changed.remove(member.id, knowing: VersionVector(), by: admin, &own, time: 9)
        return changed
    }

    func joined(_ lists: [MemberList]) throws -> MemberList {
        var joined = MemberList(repository: list.repository)
        try joined.add(lists.flatMap { Array($0.records.values) })
        return joined
    }

    /// All ways in which two admins remove members, knowing each other's record or not.
    func histories() throws -> [MemberList] {
        var found: [MemberList] = []
        for first in [y, m] {
            let one = try removing(first, by: x, from: list)
            for second in [x, m, p] {
                found.append(try joined([one, removing(second, by: y, from: list)]))
                if one.members[y.id] != nil, one.members[second.id] != nil {
                    found.append(try removing(second, by: y, from: one))
                }
            }
        }
        return found
    }
}

@Suite("The list of members")
struct MemberListTests {
    @Test("the founder admits members with their roles, and a list follows from its records in any order")
    func order() throws {
        let club = try Club()
        let seed = Seed()
        for (index, history) in try club.histories().enumerated() {
            var numbers = seed.numbers(index)
            var other = MemberList(repository: history.repository)
            for record in history.records.values.shuffled(using: &numbers) { try other.add([record]) }
            #expect(Set(other.members.keys) == Set(history.members.keys), "\(seed) \(index)")
            #expect(other.heads == history.heads && other.missing.isEmpty)
            #expect(other.epochs.map(\.hash) == history.epochs.map(\.hash))
            #expect(other.removals.keys == history.removals.keys)
        }
        #expect(club.list.members[club.y.id]?.role == .admin && club.list.members[club.m.id]?.role == .writer)
        #expect(club.list.mayWrite(club.p.id) && !club.list.mayWrite(.zero))
    }

    @Test("of two admins who remove each other the senior one stays")
    func seniorAdmin() throws {
        let club = try Club()
        let both = try club.joined([
            club.removing(club.y, by: club.x, from: club.list), club.removing(club.x, by: club.y, from: club.list),
        ])
        #expect(both.members[club.x.id] != nil && both.members[club.y.id] == nil)
    }

    @Test("in each history an admin is left, whoever was removed reads nothing new, and members read everything")
    func epochs() throws {
        let club = try Club()
        for history in try club.histories() {
            #expect(history.members.values.contains { $0.role == .admin })
            let removed = club.all.filter { history.members[$0.id] == nil }
            for writer in club.all where history.members[writer.id] != nil {
                var (list, own) = (history, try club.secrets(of: writer, in: history))
                if list.sealingEpoch(among: own) == nil { _ = try list.beginEpoch(writer, &own, time: 10) }
                let epoch = try #require(list.sealingEpoch(among: own))
                for gone in removed { #expect(try club.secrets(of: gone, in: list).secrets[epoch] == nil) }
                for member in club.all where list.members[member.id] != nil {
                    // Also what the writer got from an epoch of others, for example of a removed admin.
                    let theirs = try club.secrets(of: member, in: list)
                    #expect(Set(own.secrets.keys).isSubset(of: theirs.secrets.keys))
                }
            }
        }
    }

    @Test("a later member has the secrets of all former epochs, by the chain")
    func chain() throws {
        let club = try Club()
        for var history in try club.histories() {
            let admin = history.members[club.x.id] != nil ? club.x : club.y
            var own = try club.secrets(of: admin, in: history)
            let new = try ReplicaKeys.random()
            _ = try history.admit(new.member(named: "new"), as: .reader, by: admin, time: 11)
            _ = try history.beginEpoch(admin, &own, time: 12)
            #expect(try Set(club.secrets(of: new, in: history).secrets.keys) == Set(own.secrets.keys))
        }
    }

    @Test("nobody seals with an epoch of a removed member, even if its recipients are the members")
    func epochOfRemovedMember() throws {
        let club = try Club()
        let without = try club.removing(club.m, by: club.x, from: club.list)
        // m makes an epoch without itself, whose secret it knows.
        let secret = try SecretBytes.random(count: 32)
        let content = try EpochContent(
            secret: secret, for: without.members.values.map(\.member), former: [:], in: club.list.repository)
        let record = try MemberRecord(
            .epoch(content), repository: club.list.repository, keys: club.m, time: 9, known: club.list.heads)
        var list = without
        try list.add([record])
        let own = try club.secrets(of: club.p, in: list)
        #expect(own.secrets[record.hash] != nil)
        #expect(list.sealingEpoch(among: own) != record.hash)
    }

    @Test("records of those who are no admin, and records with a wrong signature, do not count")
    func forgedRecords() throws {
        let club = try Club()
        let stranger = try ReplicaKeys.random()
        func add(_ content: MemberRecord.Content, by keys: ReplicaKeys) throws -> MemberList {
            var list = club.list
            let record = try MemberRecord(
                content, repository: list.repository, keys: keys, time: 8, known: list.heads)
            #expect(try list.add([record]).count == 1)
            return list
        }
        let admission = MemberRecord.Content.admission(stranger.member(named: "s"), .admin)
        let removal = MemberRecord.Content.removal(club.x.id, vector: VersionVector())
        for keys in [
            club.m, stranger, ReplicaKeys(id: club.x.id, signing: stranger.signing, agreement: stranger.agreement),
        ] {
            #expect(try add(admission, by: keys).members[stranger.id] == nil)
            #expect(try add(removal, by: keys).members[club.x.id] != nil)
        }
        #expect(try add(admission, by: club.y).members[stranger.id]?.role == .admin)
        var list = club.list
        #expect(throws: MemberError.notAdmin) {
            try list.admit(stranger.member(named: "s"), as: .reader, by: club.m, time: 1)
        }
    }

    @Test("a removed admin admits nobody and removes nobody with records that its removal did not know")
    func backdatedRecords() throws {
        let club = try Club()
        let without = try club.removing(club.y, by: club.x, from: club.list)
        let friend = try ReplicaKeys.random()
        var evil = club.list
        _ = try evil.admit(friend.member(named: "friend"), as: .admin, by: club.y, time: 3)
        evil = try club.removing(club.p, by: club.y, from: evil)
        let joined = try club.joined([without, evil])
        #expect(joined.members[friend.id] == nil && joined.members[club.p.id] != nil)
        // The commits that the removal knew stay.
        let known = try club.removing(club.y, by: club.x, from: evil)
        #expect(known.members[friend.id] != nil && known.members[club.p.id] == nil)
    }

    @Test("a removal has what its author knew of all commits, and two removals have both")
    func removalVectors() throws {
        let club = try Club()
        func removing(_ number: UInt64, by admin: ReplicaKeys) throws -> MemberList {
            var vector = VersionVector()
            vector.advance(club.m.id, to: Tip(number: number, tag: .zero), after: .zero)
            var (list, own) = (club.list, try club.secrets(of: admin, in: club.list))
            _ = try list.remove(club.m.id, knowing: vector, by: admin, &own, time: 9)
            return list
        }
        let joined = try club.joined([removing(3, by: club.x), removing(5, by: club.y)])
        #expect(joined.removals[club.m.id]?.highest(of: club.m.id) == 5)
    }

    @Test("a list that lacks a record does not count those that know it, and makes others without them")
    func incomplete() throws {
        let club = try Club()
        let admission = try #require(
            club.list.records.values.first {
                if case .admission(let member, _) = $0.content { member.id == club.y.id } else { false }
            })
        var list = MemberList(repository: club.list.repository)
        try list.add(club.list.records.values.filter { $0.hash != admission.hash })
        #expect(list.missing == [admission.hash] && list.members[club.p.id] == nil)
        let made = try list.admit(ReplicaKeys.random().member(named: "s"), as: .reader, by: club.x, time: 1)
        #expect(Set(made.known).isSubset(of: list.ordered.map(\.hash)))
        try list.add([admission])
        #expect(list.members.count == 5)
    }

    @Test("every truncation and flipped byte of a record is a typed error or a record that does not count")
    func hostileRecords() throws {
        let club = try Club()
        for record in club.list.records.values {
            for count in 0..<record.bytes.count {
                #expect(throws: CommitError.self) { try MemberRecord(decoding: Array(record.bytes.prefix(count))) }
            }
            for index in record.bytes.indices {
                var bytes = record.bytes
                bytes[index] ^= 1 << UInt8(index % 8)
                guard let other = try? MemberRecord(decoding: bytes) else { continue }
                #expect(other.bytes == bytes)
                var list = MemberList(repository: club.list.repository)
                try list.add(club.list.records.values.filter { $0.hash != record.hash } + [other])
                #expect(list.members.count < 4 || list.epochs.count < club.list.epochs.count)
            }
        }
    }
}
