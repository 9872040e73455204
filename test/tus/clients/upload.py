# Uploads a file with tuspy, in two goes: python3 upload.py ENDPOINT TOKEN FILE NAME. Prints the address.
import sys

from tusclient import client

endpoint, token, path, name = sys.argv[1:]
tus = client.TusClient(endpoint, headers={"Authorization": "Bearer " + token})
options = dict(file_path=path, chunk_size=4_000_000, metadata={"filename": name})

first = tus.uploader(**options)
first.upload(stop_at=6_000_000)
# Another process would know no more than the address; where to go on, the server says.
second = tus.uploader(url=first.url, upload_checksum=True, **options)
assert second.offset == first.offset > 0, (second.offset, first.offset)
second.upload()
print(second.url)
