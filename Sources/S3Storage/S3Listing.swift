#if S3
    import ObjectStorage
    import StoreBackups

    extension S3ObjectStore {
        /// - SeeAlso: <https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html>
        package func listing(_ prefix: String) throws -> ServedListing {
            var entries: [ServedListing.Entry] = []
            var now: Int?
            var token: String?
            for _ in 0..<S3Limits.listingPages {
                var query = ["list-type": "2", "prefix": key(prefix)]
                query["continuation-token"] = token
                let answer = try send(.get, "", query, expecting: [200])
                let page = try result(answer, "ListBucketResult")
                // Of the first page: an object that is stored later is not older than it is.
                now = now ?? answer.serverTime
                for content in page.children where content.name == "Contents" {
                    guard let key = content.text(of: "Key"), key.hasPrefix(self.prefix) else { continue }
                    guard let bytes = content.text(of: "Size").flatMap(Int.init),
                        let stored = content.text(of: "LastModified").flatMap(ServerTime.seconds)
                    else { throw S3Error(.invalidAnswer, place, "a listing without lengths or times") }
                    entries.append(
                        .init(name: String(key.dropFirst(self.prefix.count)), byteCount: bytes, stored: stored))
                }
                let next = page.text(of: "IsTruncated") == "true" ? page.text(of: "NextContinuationToken") : nil
                guard let next else {
                    guard let now else { throw S3Error(.invalidAnswer, place, "an answer without its date") }
                    return ServedListing(now: now, entries: entries)
                }
                guard next != token else { throw S3Error(.invalidAnswer, place, "a listing that repeats a page") }
                token = next
            }
            throw S3Error(.invalidAnswer, place, "a listing without an end")
        }

        /// The uploads of several parts that nobody has completed.
        ///
        /// - SeeAlso: <https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListMultipartUploads.html>
        package func removeUploads(olderThan seconds: Int) throws -> Int {
            // Further ones are left to the next call.
            let answer = try send(.get, "", ["prefix": prefix, "uploads": ""], expecting: [200, 501])
            guard answer.status == 200, let now = answer.serverTime else { return 0 }
            var count = 0
            for upload in try result(answer, "ListMultipartUploadsResult").children where upload.name == "Upload" {
                guard let key = upload.text(of: "Key"), key.hasPrefix(prefix), let id = upload.text(of: "UploadId"),
                    let begun = upload.text(of: "Initiated").flatMap(ServerTime.seconds), now - begun > seconds
                else { continue }
                _ = try send(.delete, key, ["uploadId": id], expecting: [200, 204, 404])
                count += 1
            }
            return count
        }

        /// The root element of an answer.
        func result(_ answer: HTTPAnswer, _ name: String) throws -> XMLElement {
            let root = XMLElement.parse(answer.body)
            if let root, root.name == name { return root }
            throw root?.name == "Error" ? S3Error(answer, place) : S3Error(.invalidAnswer, place, "no \(name)")
        }
    }

    /// Times in answers.
    enum ServerTime {
        /// Seconds since 1970 of `2026-11-28T10:15:30.000Z`; nil for other text.
        ///
        /// - SeeAlso: <https://howardhinnant.github.io/date_algorithms.html#days_from_civil>
        static func seconds(_ text: String) -> Int? {
            guard let match = text.prefixMatch(of: #/(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)/#),
                let year = Int(match.1), let month = Int(match.2), let day = Int(match.3), let hour = Int(match.4),
                let minute = Int(match.5), let second = Int(match.6), (1...12).contains(month)
            else { return nil }
            // The year of this calendar begins in March.
            let shifted = month <= 2 ? year - 1 : year
            let ofEra = shifted % 400
            let ofYear = (153 * ((month + 9) % 12) + 2) / 5 + day - 1
            let days = shifted / 400 * 146_097 + ofEra * 365 + ofEra / 4 - ofEra / 100 + ofYear - 719_468
            return ((days * 24 + hour) * 60 + minute) * 60 + second
        }
    }
#endif
