#if PostgreSQL
    import Foundation
    import Testing

    @testable import PostgreSQLRemote

    @Suite("Addresses, pauses and errors of PostgreSQL remotes")
    struct ServerAddressTests {
        private struct Generator: RandomNumberGenerator {
            var state: UInt64

            mutating func next() -> UInt64 {
                state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                return state ^ (state >> 33)
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

        @Test("a text that is no URL is refused without repeating it")
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
                    _ = try PostgreSQLObjectStore(url: url, repository: Make.repository())
                }
                #expect(error?.code == .invalidURL, "\(url)")
                let description = error?.description ?? "secret"
                #expect(!description.contains("secret"))
            }
        }

        @Test("every code has a remedy, and names the remote")
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
