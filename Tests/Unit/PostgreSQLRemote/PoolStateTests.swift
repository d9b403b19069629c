#if PostgreSQL
    import Foundation
    import Testing

    @testable import PostgreSQLRemote

    @Suite("What the PostgreSQL remote decides without a server")
    struct PoolStateTests {
        @Test(
            "random callers: never more connections than the limit, each used by one, and waiting callers are served in order"
        )
        func pool() {
            for seed in 1...200 as ClosedRange<UInt64> {
                var random = Generator(state: seed)
                var model = Model(limit: Int.random(in: 1...4, using: &random))
                for _ in 0..<200 { model.step(&random) }
                model.drain()
                #expect(model.faults.isEmpty, "seed \(seed): \(model.faults)")
            }
        }

        private struct Generator: RandomNumberGenerator {
            var state: UInt64
            mutating func next() -> UInt64 {
                state ^= state << 13
                state ^= state >> 7
                state ^= state << 17
                return state &* 0x2545_F491_4F6C_DD1D
            }
        }

        private struct Model {
            let limit: Int
            var pool: PoolState<Int>
            var used: [Int] = []
            var opening = 0
            var queue: [UInt64] = []
            var last = 0
            var faults: [String] = []

            init(limit: Int) {
                self.limit = limit
                pool = PoolState(limit: limit)
            }

            mutating func step(_ random: inout Generator) {
                switch Int.random(in: 0..<7, using: &random) {
                case 0, 1:
                    let (ticket, grant) = pool.request()
                    if let grant { take(grant) } else { queue.append(ticket) }
                case 2 where !used.isEmpty:
                    served(pool.giveBack(used.removeFirst(), at: .now))
                case 3 where !used.isEmpty:
                    used.removeLast()
                    served(pool.didClose())
                case 4 where opening > 0:
                    opening -= 1
                    if Bool.random(using: &random) { served(pool.didClose()) } else { add() }
                case 5 where !queue.isEmpty:
                    let ticket = queue.remove(at: Int.random(in: queue.indices, using: &random))
                    if !pool.withdraw(ticket) || pool.withdraw(ticket) { faults.append("withdrawn") }
                case 6:
                    for _ in pool.removeIdle(since: .now) { served(pool.didClose()) }
                default: break
                }
                if pool.count > limit || used.count + opening + pool.idleCount != pool.count {
                    faults.append("\(pool.count) of \(limit), \(used.count) used, \(opening) opened")
                }
                if !queue.isEmpty, pool.idleCount > 0 || pool.count < limit { faults.append("somebody waits in vain") }
            }

            mutating func drain() {
                while opening > 0 {
                    opening -= 1
                    add()
                }
                while !used.isEmpty { served(pool.giveBack(used.removeFirst(), at: .now)) }
                if !queue.isEmpty || pool.waitingCount > 0 { faults.append("somebody was never served") }
            }

            private mutating func add() {
                last += 1
                used.append(last)
            }

            private mutating func take(_ grant: PoolState<Int>.Grant) {
                switch grant {
                case .open: opening += 1
                case .use(let member, _):
                    if used.contains(member) { faults.append("\(member) is used twice") }
                    used.append(member)
                }
            }

            private mutating func served(_ granted: (UInt64, PoolState<Int>.Grant)?) {
                guard let (ticket, grant) = granted else { return }
                if queue.first != ticket { faults.append("out of order") }
                queue.removeAll { $0 == ticket }
                take(grant)
            }
        }

        @Test("pauses grow to a limit, are random within a half, and end")
        func retry() {
            var retry = Retry(attempts: 6, first: .milliseconds(100), longest: .milliseconds(500))
            var random = Generator(state: 7)
            let pauses = (0..<8).map { _ in retry.pause(using: &random) }
            let most: [Double?] = [100, 200, 400, 500, 500, nil, nil, nil]
            for (pause, most) in zip(pauses, most) {
                let milliseconds = pause.map { $0 / .milliseconds(1) }
                #expect((milliseconds == nil) == (most == nil))
                if let milliseconds, let most { #expect(milliseconds >= most / 2 && milliseconds <= most) }
            }
            var other = Retry(attempts: 6, first: .milliseconds(100), longest: .milliseconds(500))
            #expect(other.pause(using: &random) != pauses[0])
        }

        @Test("the name of a remote has host, port and database, and never user, password or options")
        func names() throws {
            let cases = [
                "postgresql://me:secret@example.org:5433/db?sslmode=verify-full": "postgresql://example.org:5433/db",
                "postgres://me:secret@example.org": "postgresql://example.org/",
                "postgresql://me:secret@[2001:db8::1]:5433/db": "postgresql://[2001:db8::1]:5433/db",
                "postgresql://me:secret@a,b:5433/db": "postgresql://a:,b:5433/db",
                "postgresql:///db?host=/run/postgresql&user=me&password=secret":
                    "postgresql:///db?host=/run/postgresql",
                "postgresql://me:secret@/?hostaddr=127.0.0.1&sslpassword=secret": "postgresql://127.0.0.1/",
                "postgresql://": "postgresql:///",
            ]
            for (url, name) in cases {
                let address = try ServerAddress(url: url, connectLimit: .seconds(10))
                #expect(address.name == name.replacing("a:,", with: "a,"))
                let texts = ["\(address)", String(reflecting: address)]
                #expect(texts.allSatisfy { !$0.contains("secret") })
            }
        }

        @Test("each host of a URL is tried by itself, with its own port")
        func hosts() throws {
            let address = try ServerAddress(
                url: "postgresql://me@a,b:5433,c:5434/db?sslmode=require", connectLimit: .seconds(10))
            let hosts = address.attempts.map { options in
                ["host", "port", "dbname", "sslmode", "connect_timeout"].map { keyword in
                    options.filter { $0.keyword == keyword }.map(\.value).joined(separator: "+")
                }
            }
            #expect(
                hosts == [
                    ["a", "", "db", "require", "10"], ["b", "5433", "db", "require", "10"],
                    ["c", "5434", "db", "require", "10"],
                ])
        }

        @Test("what is no URL is refused without repeating it")
        func wrongURLs() {
            let urls = [
                "", "secret", "host=secret password=secret", "http://secret", "postgresql://me:secret/more@host/db",
                "postgresql://me:secret@more@host/db", "postgresql://me:se@cret@host:70000/db",
                "postgresql://a:0/secret",
                "postgresql://me:se%zzcret@host/db", "postgresql://host/db?secret=1", "postgresql://[secret/db",
                "postgresql://host/" + String(repeating: "secret", count: 1000), "postgresql://a\0secret",
            ]
            for url in urls {
                let error = #expect(throws: PostgreSQLError.self) {
                    _ = try PostgreSQLRemote(url: url, repository: Make.repository())
                }
                #expect(error?.code == .invalidURL, "\(url)")
                let description = error?.description ?? "secret"
                #expect(!description.contains("secret"))
            }
        }

        @Test("batches keep the order and are bounded by number and bytes")
        func batches() {
            let sizes = [
                [10], Array(repeating: 0, count: 1201), Array(repeating: 500_000, count: 30), [0, 500_000, 0],
            ]
            for sizes in sizes {
                let objects = sizes.enumerated().map {
                    Make.object($0.offset, bytes: [UInt8](repeating: 0, count: $0.element))
                }
                let batches = ObjectWriter.batches(of: objects)
                #expect(batches.flatMap(\.self) == objects)
                for batch in batches {
                    #expect(!batch.isEmpty && batch.count <= PostgreSQLLimits.objectsAtOnce)
                    #expect(batch.reduce(0) { $0 + $1.bytes.count } <= PostgreSQLLimits.insertBytes)
                }
            }
            #expect(ObjectWriter.batches(of: []).isEmpty)
        }

        @Test("every code says what to do, and names the remote")
        func descriptions() {
            let states = [
                "28P01", "28000", "3D000", "42501", "25006", "53100", "53300", "42P01", "42703", "57014", "40001",
                "57P01",
                "08006", "XX000",
            ]
            let errors = states.map { PostgreSQLError.reported("postgresql://a/b", sqlState: $0, nil) }
            #expect(Set(errors.map(\.code)).count == 13)
            #expect(errors.allSatisfy { $0.description.contains("postgresql://a/b (SQLSTATE ") })
        }
    }
#endif
